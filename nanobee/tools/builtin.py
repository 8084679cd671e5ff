"""The tools that every agent has."""

from nanobee.tools.ask_user import ask_user
from nanobee.tools.exec_command import exec_command
from nanobee.tools.files_edit import edit_file
from nanobee.tools.files_list import list_dir
from nanobee.tools.files_read import read_file
from nanobee.tools.files_write import write_file
from nanobee.tools.message import message
from nanobee.tools.registry import ToolRegistry


def create_builtin_registry() -> ToolRegistry:
    """A registry of its own with the built-in tools, for further tools to be added to."""
    return ToolRegistry((read_file, write_file, edit_file, list_dir, message, ask_user, exec_command))
