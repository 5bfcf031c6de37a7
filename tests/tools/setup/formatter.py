"""An editor's formatter: lays out JSON with comments anew, and says the same in the same order."""

import re

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*+|/\*.*?\*/|[{}\[\],:]|[^\s"{}\[\],:/]++', re.DOTALL)


def format_settings(text: str, *, has_last_commas: bool) -> str:
    """Each element and each comment in a line of its own. ``has_last_commas``: the last elements have commas, too."""
    newline = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines, line, depth = list[str](), "", 0
    for piece in _set_last_commas(text.removeprefix("\ufeff"), has_last_commas=has_last_commas):
        is_comment = piece.startswith(("//", "/*"))
        if is_comment or piece in "]}":
            lines.append("\t" * depth + line)
            line = ""
        depth += (piece in "[{") - (piece in "]}")
        line += f"{piece} " if piece == ":" else piece
        if is_comment or piece in "[{,":
            lines.append("\t" * (depth - (piece in "[{")) + line)
            line = ""
    return mark + newline.join(line for line in [*lines, line] if line.strip()) + newline


def _set_last_commas(text: str, *, has_last_commas: bool) -> list[str]:
    pieces, last_value = list[str](), 0
    for piece in (match[0].rstrip() for match in _PIECE.finditer(text)):
        if piece in "]}" and pieces[last_value] == ",":
            del pieces[last_value]
            last_value = max(index for index in range(last_value) if not pieces[index].startswith(("//", "/*")))
        if piece in "]}" and has_last_commas and pieces[last_value] not in "[{":
            pieces.insert(last_value + 1, ",")
        pieces.append(piece)
        if not piece.startswith(("//", "/*")):
            last_value = len(pieces) - 1
    return pieces
