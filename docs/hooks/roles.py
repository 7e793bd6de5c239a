"""Converts roles in docstrings, such as ``:class:`Dataset```, to links, as help() shows docstrings unchanged."""

import re

import griffe

_ROLE = re.compile(r":(?:class|func|meth|attr):`([\w.]+)`")


class Roles(griffe.Extension):
    """Replaces roles by links, and shows functions that the stubs declare by overloads only."""

    def on_module_members(self, *, mod, **kwargs):
        for name, overloads in mod.overloads.items():
            if overloads and name not in mod.members:
                mod.set_member(name, overloads[0])

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            scope = obj if obj.is_class else obj.parent
            obj.docstring.value = _ROLE.sub(lambda role: _link(scope, role[1]), obj.docstring.value)


def _link(scope, name):
    """Returns a link to `name`, which may be a member of the class `scope`."""
    is_member = scope is not None and scope.is_class and name in scope.members
    path = f"{scope.name}.{name}" if is_member else name
    return f"[`{name}`][arrowwood.{path}]"
