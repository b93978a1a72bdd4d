"""What was written when the course lay in `transformer_lab.course` runs on, and the new name is said once."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

OLD, NEW = "transformer_lab.course", "transformer_course"


class OldPlace(MetaPathFinder, Loader):
    """Finds each module of the old place in the new one: the same module, not a second one."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return what loads it; None for a name that is none of the old place's."""
        return spec_from_loader(name, self) if f"{name}.".startswith(f"{OLD}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that is meant."""
        if spec.name == OLD:
            print(f"`{OLD}` is called `{NEW}` now. It still works here; write the new name when you can.")
        module = import_module(NEW + spec.name.removeprefix(OLD))
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already; its own specification goes back to its place."""
        module.__spec__ = self._own


def install() -> None:
    """From now on, imports from the old place work in this process."""
    if not any(isinstance(each, OldPlace) for each in sys.meta_path):
        sys.meta_path.insert(
            0, OldPlace()
        )  # before what finds a folder that an older version has left behind
