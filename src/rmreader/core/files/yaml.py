"""YAML texts as plain data, without what makes YAML dangerous."""

from collections import Counter
from typing import Any

from rmreader.core.errors import quoted

_DEEPEST = 20


def parse_yaml(text: str) -> Any:
    """Read a YAML text as plain data.

    ``ValueError`` where it nests deep or has aliases, of which a few lines unfold to gigabytes, or
    has a key twice, of which the last would silently win.
    """
    import yaml  # here, since most commands need no YAML

    # The loader in C is ten times as fast, where it was compiled.
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_events(text, loader_class)
    loader = loader_class(text)
    root = loader.get_single_node()
    if root is None:
        return None
    tree = loader.construct_document(root)
    _check_keys(root)
    return tree


def _check_events(text: str, loader_class: Any) -> None:
    """Refuse depth and aliases event by event, so that nothing is built before."""
    import yaml

    depth = 0
    for event in yaml.parse(text, loader_class):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has an alias, *NAME: write it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise ValueError(f"it nests more than {_DEEPEST} deep")


def _check_keys(root: Any) -> None:
    """Refuse a mapping that has a key twice."""
    import yaml

    nodes = [root]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, yaml.MappingNode):
            continue
        counts = Counter(str(key.value) for key, _ in node.value)
        for key, count in counts.items():
            if count > 1:
                raise ValueError(f"the key {quoted(key)} is there twice: leave one of them")
        nodes += [value for _, value in node.value]
