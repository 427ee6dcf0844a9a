# SPDX-License-Identifier: LGPL-2.1-or-later
"""The contract as bindings need it: each type with its names."""
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
CONTRACT = HERE.parent.parent / "dbus"
sys.path.insert(0, str(CONTRACT))
import contract  # noqa: E402  (the folder has to be in the path first)

MANAGER = "org.mountd1.Manager"
PLUGIN = "org.mountd1.Plugin"


class Type:
    """A type of D-Bus, with the name of its struct or dictionary.

    `kind` is a letter of a basic type, "v", "array", "map", "row" or "dict".
    """

    def __init__(self, kind, name="", parts=()):
        self.kind, self.name, self.parts = kind, name, list(parts)

    def is_dict(self):
        return self.kind == "dict" or (self.kind == "array" and self.parts[0].is_dict())


class Model:
    """All that the bindings of the contract consist of."""

    def __init__(self, folder=CONTRACT):
        interfaces = contract.read(folder)
        self.manager = interfaces[MANAGER]
        self.names, self.fields = {}, {}
        self.rows, self.dicts = {}, {}
        self.inputs, self.mixed = set(), set()
        self.used = set()
        self.read_names()
        self.methods, self.signals, self.properties = [], [], []
        for member in self.manager.members:
            if member.kind == "method":
                self.methods.append((member, self.typed(member, member.inputs(), True),
                                     self.typed(member, member.outputs(), False)))
            elif member.kind == "signal":
                self.signals.append((member, self.typed(member, member.outputs(), False)))
            else:
                self.properties.append(
                    (member, self.type_of(member, "value", member.type, {})))
        self.plugin = [(member.name, self.type_of(member, "property", member.type, {}))
                       for member in interfaces[PLUGIN].members]
        head = contract_head(folder / f"{MANAGER}.xml")
        found = re.search(r"org\.mountd1\.Error\.\{([^}]*)\}", head)
        self.errors = re.findall(r"\w+", found[1])

    def check_names(self):
        if mixed := self.mixed & self.inputs:
            sys.exit(f"names.txt has one name for options with other keys: {mixed}")
        if unused := set(self.names) - self.used:
            sys.exit(f"names.txt names what the contract has not: {sorted(unused)}")

    def signature(self, kind):
        """The signature of D-Bus."""
        if kind.kind == "dict":
            return "a{sv}"
        parts = "".join(self.signature(part) for part in kind.parts)
        if kind.kind == "map":
            return "a{" + parts + "}"
        if kind.kind == "row":
            return "(" + "".join(self.signature(part)
                                 for _, part in self.rows[kind.name]) + ")"
        return "a" + parts if kind.kind == "array" else kind.kind

    def read_names(self):
        for line in (HERE / "names.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                member, path, name, *fields = line.split()
                self.names[member, path] = name
                if fields:
                    self.fields[name] = fields

    def typed(self, member, arguments, is_input):
        types = []
        for argument in arguments:
            keys = {}
            if "{sv}" in argument.type:
                keys = self.manager.keys(member, argument)
                if argument.name == "options":
                    keys.update({key.name: key for key in self.manager.of_each_method})
            kind = self.type_of(member, argument.name, argument.type, keys)
            if is_input:
                self.note_input(kind)
            types.append((argument.name, kind))
        return types

    def note_input(self, kind):
        if kind.kind == "dict" and kind.name not in self.inputs:
            self.inputs.add(kind.name)
            for _, one in self.dicts[kind.name]:
                self.note_input(one)
        for part in kind.parts:
            self.note_input(part)

    def type_of(self, member, path, signature, keys):
        """The type of one complete signature; `keys` are those of its dictionary."""
        if signature == "a{sv}":
            return self.dictionary(member, path, keys)
        if signature.startswith("a{"):
            value = self.type_of(member, path, signature[3:-1], keys)
            return Type("map", parts=[Type(signature[2]), value])
        if signature.startswith("a"):
            return Type("array", parts=[self.type_of(member, path, signature[1:], keys)])
        if signature.startswith("("):
            return self.row(member, path, signature)
        return Type(signature)

    def row(self, member, path, signature):
        name = self.named(member, path)
        if name not in self.fields:
            sys.exit(f"{member.name} {path} {signature}: names.txt has to name the "
                     "struct and its fields")
        types, at = [], 1
        while signature[at] != ")":
            end = contract.end_of_type(signature, at)
            types.append(self.type_of(member, path, signature[at:end], {}))
            at = end
        if len(types) != len(self.fields[name]):
            sys.exit(f"{member.name} {path}: {name} has {len(self.fields[name])} fields "
                     f"in names.txt, and {signature} has {len(types)}")
        self.rows.setdefault(name, list(zip(self.fields[name], types)))
        return Type("row", name)

    def dictionary(self, member, path, keys):
        name = self.named(member, path)
        if not name and not keys:
            return Type("map", parts=[Type("s"), Type("v")])
        if not name:
            name = "Options" if (
                path == "options" and len(keys) == len(self.manager.of_each_method)) else (
                member.name + camel(path.split(".")[-1]))
        if keys and name not in self.dicts:
            self.dicts[name] = []  # known from now on, for one that contains itself
            # The keys of each method last, because they are the same everywhere.
            self.dicts[name] = [
                (key.name, self.type_of(member, f"{path}.{key.name}", key.type, key.keys))
                for key in keys.values()]
        elif keys:
            have = {key for key, _ in self.dicts[name]}
            if self.dicts[name] and have != set(keys):
                # An answer may have the keys of all that share its name.
                self.mixed.add(name)
                self.dicts[name] += [
                    (key.name,
                     self.type_of(member, f"{path}.{key.name}", key.type, key.keys))
                    for key in keys.values() if key.name not in have]
            for key in keys.values():
                self.type_of(member, f"{path}.{key.name}", key.type, key.keys)
        return Type("dict", name)

    def named(self, member, path):
        if (member.name, path) in self.names:
            self.used.add((member.name, path))
            return self.names[member.name, path]
        # Options that are those of another method have its names.
        return next((name for (_, other), name in self.names.items()
                     if other == path and name in self.fields), "")


def contract_head(path):
    """The comment before <node>, on one line."""
    return " ".join(path.read_text().split("<node>")[0].split())


def camel(name):
    return "".join(word.capitalize() if word.islower() else word
                   for word in name.split("_"))


def about(member, section=""):
    """The text of the contract on a member or argument, as paragraphs."""
    text = member.sections().get(section, "")
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)
            if part.strip()]


def commented(prefix, paragraphs, width=88):
    lines = []
    for paragraph in paragraphs:
        if lines:
            lines.append(prefix.rstrip())
        lines += textwrap.wrap(paragraph, width, initial_indent=prefix,
                               subsequent_indent=prefix, break_long_words=False,
                               break_on_hyphens=False)
    return lines
