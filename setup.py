"""What pyproject.toml cannot express: the description that PyPI shows, and the project's addresses.

PyPI does not resolve links that are relative to the repository. So they are made absolute, below ``Repository`` in
``[tool.tidemill.urls]``. While that is empty, links become their text and pictures are left out.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.compat.py310 import tomllib

ROOT = Path(__file__).parent

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ELSEWHERE = r"(?!https?:|mailto:|#)"
_PICTURE = re.compile(rf"!\[([^\]]*)\]\({_ELSEWHERE}([^)\s]+)\)")
_LINK = re.compile(rf"(?<!!)\[([^\]]*)\]\({_ELSEWHERE}([^)\s]+)\)")
_ATTRIBUTE = re.compile(rf'\b(src|srcset)="{_ELSEWHERE}([^"]+)"')
_PICTURE_ELEMENT = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)


def described(text: str, repository: str) -> str:
    """The text of README.md without links that only work in the repository. Code blocks stay as they are."""
    return "".join(part if part.startswith("```") else _with_links(part, repository) for part in _FENCED.split(text))


def _with_links(text: str, repository: str) -> str:
    if not repository:
        text = re.sub(_PICTURE.pattern + r"\n*", "", _PICTURE_ELEMENT.sub("", text))
        return _LINK.sub(r"\1", text)
    repository = repository.rstrip("/")
    text = _PICTURE.sub(rf"![\1]({repository}/raw/HEAD/\2)", text)
    text = _ATTRIBUTE.sub(rf'\1="{repository}/raw/HEAD/\2"', text)
    return _LINK.sub(rf"[\1]({repository}/blob/HEAD/\2)", text)


def main() -> None:
    """Build what the command line of setuptools names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    urls = {name: url for name, url in project["tool"]["tidemill"]["urls"].items() if url}
    setup(
        long_description=described((ROOT / "README.md").read_text(encoding="utf-8"), urls.get("Repository", "")),
        long_description_content_type="text/markdown",
        project_urls=urls,
    )


if __name__ == "__main__":
    main()
