"""Directives whose content is made from the program itself, when the documentation is built.

Nothing of it is written down twice: states, transitions, flows, reserved steps,
releases, settings, commands, exit codes and the REST API come from where the code keeps them.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from pygments.lexers.shell import BashSessionLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from from_the_code import api, commands, settings, tables


class FromTheCode(SphinxDirective):
    """A directive that writes reStructuredText and has it parsed."""

    has_content = False

    def text(self) -> str:
        """Return the reStructuredText that stands here."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Parse it, titles included."""
        container = nodes.Element()
        container.document = self.state.document
        source = f"<{self.name}>"
        lines = self.text().splitlines()
        content = StringList(lines, items=[(source, number) for number in range(len(lines))])
        self.state.nested_parse(content, self.content_offset, container, match_titles=True)
        return container.children


class Table(FromTheCode):
    """``.. from-the-code:: states``: one of :data:`tables.TABLES`."""

    required_arguments = 1

    def text(self) -> str:
        """Return the table."""
        name = self.arguments[0]
        if name not in tables.TABLES:
            raise self.error(f"there is no table {name!r}; there are {', '.join(tables.TABLES)}")
        return tables.TABLES[name]()


class Diagram(FromTheCode):
    """``.. state-diagram:: deploy``: the states of a flow, or of those that are named."""

    required_arguments = 1
    final_argument_whitespace = True

    def text(self) -> str:
        """Return the drawing."""
        drawn = tables.diagram(self.arguments[0])
        return ".. code-block:: text\n\n" + tables.indented(drawn)


class Settings(FromTheCode):
    """``.. settings-of:: conductor``: the options of a group."""

    required_arguments = 1

    def text(self) -> str:
        """Return the group's options."""
        return settings.of_group(self.arguments[0])


class GlobalOptions(FromTheCode):
    """``.. command-line-options::``: what stands before a command."""

    def text(self) -> str:
        """Return them."""
        return commands.global_options()


class Commands(FromTheCode):
    """``.. command-line::``: every command."""

    def text(self) -> str:
        """Return them all."""
        return commands.reference()


class Operations(FromTheCode):
    """``.. rest-operations::``: every operation of the REST API."""

    def text(self) -> str:
        """Return them all."""
        return api.operations()


class Schemas(FromTheCode):
    """``.. rest-schemas::``: what bodies and answers of the REST API are."""

    def text(self) -> str:
        """Return them all."""
        return api.schemas()


class Console(BashSessionLexer):
    """A console in which a line after ``>`` goes on with the command before it."""

    _bare_continuation = True


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives, and names for settings and commands."""
    app.add_object_type("setting", "setting", objname="setting", indextemplate="pair: %s; setting")
    app.add_object_type("command", "command", objname="command", indextemplate="pair: %s; command")
    app.add_directive("from-the-code", Table)
    app.add_directive("state-diagram", Diagram)
    app.add_directive("settings-of", Settings)
    app.add_directive("command-line-options", GlobalOptions)
    app.add_directive("command-line", Commands)
    app.add_directive("rest-operations", Operations)
    app.add_directive("rest-schemas", Schemas)
    app.add_lexer("console", Console)
    app.connect("env-get-outdated", _always)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _always(app: Sphinx, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
    """Build every page each time: what it is made from is not in its file."""
    return list(env.found_docs)
