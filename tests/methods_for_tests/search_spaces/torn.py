from __future__ import annotations


def grid(size: str) -> list[dict[str, bool]]:
    return [{"bold": True}, {"bold": False}]
