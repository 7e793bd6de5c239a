"""Converts roles in docstrings, such as ``:class:`Dataset```, to links when the documentation is built."""

import re

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr):`([\w.]+)`")


class Roles(griffe.Extension):
    """Replaces roles by links, and adds functions that only have overloads."""

    def on_module_members(self, *, mod, **kwargs):
        for name, overloads in mod.overloads.items():
            if overloads and name not in mod.members:
                mod.set_member(name, overloads[0])

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            scope = obj if obj.is_class else obj.parent
            obj.docstring.value = ROLE.sub(lambda match: make_link(scope, match[1]), obj.docstring.value)


def make_link(scope, name):
    """Returns a link to `name`, which may be a method of the class whose docstring names it."""
    is_method = scope is not None and scope.is_class and name in scope.members
    return f"[`{name}`][arrowwood.{scope.name + '.' if is_method else ''}{name}]"
