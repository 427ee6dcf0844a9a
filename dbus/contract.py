# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the contract: the interfaces of dbus/*.xml with the keys of their dictionaries.

The comment before a member documents the keys of each a{sv} of the member. A comment
that documents several members begins the text on each with "Member:" at the start of a
line. "@argument:" begins the text on one argument. A key stands as "key" (type), and
several keys of one type as "one", "two" (type) or "one" and "two" (type). Keys of a
nested dictionary stand inside the parentheses of its key. The text on an argument takes
over the keys of another method's argument by "as of Method", "options are those of
Method", "Method's options", "Method's arguments and options" and "all that Method
answers".
"""
import collections
import pathlib
import re
import xml.dom.minidom

NAME = r'"[a-z][a-z0-9_]*"'
KEYS = re.compile(rf"((?:{NAME}(?:,\s+and\s+|,\s+|\s+and\s+|\s+or\s+))*{NAME})\s+\(")
SECTION = re.compile(r"^[ \t]*@(\w+):", re.M)
TAKEN_OVER = re.compile(r"\s*(?:as|each\s+as)\s+of\s+([A-Z]\w+)")
OPTIONS_ARE = re.compile(r"options\s+are\s+those\s+of\s+([A-Z]\w+)")
KEYS_OF_OPTIONS = re.compile(r"([A-Z]\w+)'s\s+(?:arguments\s+and\s+)?options")
ANSWERS_OF = re.compile(r"all\s+that\s+([A-Z]\w+)\s+answers")

Key = collections.namedtuple("Key", "name type keys")
# The options that each method takes, as the interface's first comment says.
OF_EACH_METHOD = [Key("patience_ms", "u", {}), Key("traceparent", "s", {}),
                  Key("request_id", "s", {})]
Argument = collections.namedtuple("Argument", "name type direction")


class Member:
    """A method, signal or property, with the text of its comment."""

    def __init__(self, kind, interface, node):
        self.kind = kind
        self.interface = interface
        self.name = node.getAttribute("name")
        self.type = node.getAttribute("type")
        self.access = node.getAttribute("access")
        self.arguments = []
        self.annotations = []
        for child in node.childNodes:
            if child.nodeName == "arg":
                direction = child.getAttribute("direction")
                if not direction:
                    direction = "out" if kind == "signal" else "in"
                self.arguments.append(Argument(child.getAttribute("name"),
                                               child.getAttribute("type"), direction))
            elif child.nodeName == "annotation":
                self.annotations.append((child.getAttribute("name"),
                                         child.getAttribute("value")))
        self.text = ""

    def sections(self):
        """The text of each argument; that before the first is at ""."""
        parts = SECTION.split(self.text)
        sections = {"": parts[0]}
        for name, text in zip(parts[1::2], parts[2::2]):
            sections[name] = text
        return sections

    def inputs(self):
        return [one for one in self.arguments if one.direction == "in"]

    def outputs(self):
        return [one for one in self.arguments if one.direction == "out"]


def end_of_type(text, at=0):
    """Where the one complete type ends that begins at `at`; -1 if none does."""
    while text[at:at + 1] == "a":
        at += 1
    if text[at:at + 1] in ("(", "{"):
        close = {"(": ")", "{": "}"}[text[at]]
        at += 1
        while 0 < at < len(text) and text[at] != close:
            at = end_of_type(text, at)
        return at + 1 if 0 < at < len(text) else -1
    return at + 1 if text[at:at + 1] and text[at] in "ybnqiuxtdsogvh" else -1


def end_of_parentheses(text, at):
    """Where the parentheses close that are open at `at`."""
    depth = 1
    while at < len(text) and depth > 0:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def keys_of(text, answers=lambda name: {}):
    """The keys that a text documents, with those of nested dictionaries inside.

    `answers` gives the keys that "all that METHOD answers" stands for.
    """
    keys, at = {}, 0
    while found := KEYS.search(text, at):
        at = found.end()
        end = end_of_type(text, at)
        if end < 0 or text[end:end + 1] not in (":", ";", ",", ")"):
            continue
        kind, close = text[at:end], end_of_parentheses(text, at)
        inner = text[end:close]
        nested = {}
        if "{sv}" in kind:
            for name in ANSWERS_OF.findall(inner):
                nested.update(answers(name))
            nested.update(keys_of(inner, answers))
        for name in re.findall(r'"([a-z0-9_]+)"', found[1]):
            keys.setdefault(name, Key(name, kind, nested))
        at = close
    return keys


def flat(keys):
    """(name, type) of each key and of each nested key."""
    for key in keys.values():
        yield key.name, key.type
        yield from flat(key.keys)


class Interface:
    def __init__(self, node, head):
        self.name = node.getAttribute("name")
        # A released contract has fewer of them.
        self.of_each_method = [key for key in OF_EACH_METHOD if f'"{key.name}"' in head]
        self.members = []
        texts = {}
        names = {child.getAttribute("name") for child in node.childNodes
                 if child.nodeName in ("method", "signal", "property")}
        heading = re.compile(rf"^[ \t]*({'|'.join(sorted(names))}):\s", re.M)
        comment = ""
        for child in node.childNodes:
            if child.nodeType == child.COMMENT_NODE:
                comment = child.data
            elif child.nodeName in ("method", "signal", "property"):
                member = Member(child.nodeName, self.name, child)
                self.members.append(member)
                parts = heading.split(comment)
                texts[member.name] = texts.get(member.name, "") + parts[0]
                for name, text in zip(parts[1::2], parts[2::2]):
                    texts[name] = texts.get(name, "") + text
                comment = ""
        for member in self.members:
            member.text = texts[member.name]
        self.by_name = {member.name: member for member in self.members}

    def keys(self, member, argument):
        """The keys of the dictionary `argument`, those taken over first."""
        text = member.sections().get(argument.name, "")
        keys = {}
        if (source := TAKEN_OVER.match(text)) and source[1] in self.by_name:
            keys.update(self._like(self.by_name[source[1]], argument))
        others = KEYS_OF_OPTIONS.findall(text)
        if argument.name == "options":
            # The sentence on arguments and options stands before both.
            others += OPTIONS_ARE.findall(member.text)
        for name in others:
            other = self.by_name[name]
            keys.update(self.keys(other, other.inputs()[-1]))
        keys.update(keys_of(text, self._answers))
        return keys

    def _answers(self, name):
        method = self.by_name[name]
        return self.keys(method, method.outputs()[0])

    def _like(self, other, argument):
        """The keys of the other method's argument that stands for `argument`."""
        if argument.direction == "out":
            return self._answers(other.name)
        for one in other.inputs():
            if one.name == argument.name:
                return self.keys(other, one)
        return {}


def read(folder):
    """All interfaces of a folder, by name."""
    interfaces = {}
    for path in sorted(pathlib.Path(folder).glob("org.mountd1.*.xml")):
        document = xml.dom.minidom.parse(str(path))
        head = path.read_text().split("<node>")[0]
        for node in document.getElementsByTagName("interface"):
            interfaces[node.getAttribute("name")] = Interface(node, head)
    return interfaces
