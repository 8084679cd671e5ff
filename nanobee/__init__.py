"""nanobee: a gateway between people's chats and a language model.

The package itself imports nothing heavy: public names live in the modules
`nanobee.messages`, `nanobee.channel`, `nanobee.config`, `nanobee.errors`, `nanobee.testing`.
"""

__version__ = "0.1.0"
