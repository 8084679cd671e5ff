from nanobee.tools.docstring import parse_docstring


def test_description_and_parameters_are_told_apart() -> None:
    docstring = parse_docstring(
        """Look something up.

        It takes a while: be patient.

        Args:
            query: What to look for,
                in words.
            limit (int, optional): At most so many. Note: a number.

        Returns:
            text: not a parameter.

        Raises:
            ToolError: nothing found.
        """
    )
    assert docstring.description == "Look something up.\n\nIt takes a while: be patient."
    assert docstring.parameters == {
        "query": "What to look for, in words.",
        "limit": "At most so many. Note: a number.",
    }


def test_a_docstring_without_sections_is_all_description() -> None:
    docstring = parse_docstring("One line: with a colon.")
    assert docstring.description == "One line: with a colon."
    assert docstring.parameters == {}


def test_an_entry_without_form_belongs_to_the_one_before_or_to_nothing() -> None:
    docstring = parse_docstring("Do.\n\nArgs:\n    nonsense\n    a: first\n    still first\n    b:\n        second\n")
    assert docstring.parameters == {"a": "first still first", "b": "second"}
