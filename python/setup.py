"""The wheel's tag: the package is plain Python, the program beside it is of one platform."""

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class AnyPython(bdist_wheel):
    """A wheel for every Python 3 of the platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tag without a version of Python and its binary interface."""
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"bdist_wheel": AnyPython})
