"""Docstrings name what they speak of as ``:class:`Dataset```, which help() shows as it stands;
here it becomes a link."""

import re

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr):`([\w.]+)`")


class Roles(griffe.Extension):
    """Puts links in the place of roles, and shows functions that have overloads only."""

    def on_module_members(self, *, mod, **kwargs):
        for name, overloads in mod.overloads.items():
            if overloads and name not in mod.members:
                mod.set_member(name, overloads[0])

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            scope = obj if obj.is_class else obj.parent
            obj.docstring.value = ROLE.sub(lambda found: link(scope, found[1]), obj.docstring.value)


def link(scope, name):
    """A link to `name`, which may be a method of the class that speaks of it."""
    own = scope is not None and scope.is_class and name in scope.members
    return f"[`{name}`][arrowwood.{scope.name + '.' if own else ''}{name}]"
