"""Draws ``twinrig.ico`` from the SVG of the application."""

from __future__ import annotations

import struct
from pathlib import Path

SIZES_PX = (16, 20, 24, 32, 40, 48, 64, 256)


def draw_icon(svg: Path) -> bytes:
    """The icon in all ``SIZES_PX``, each as a PNG (Windows Vista and later)."""
    return pack([(size, _png(svg.read_bytes(), size)) for size in SIZES_PX])


def pack(pictures: list[tuple[int, bytes]]) -> bytes:
    """An ICO file of PNG pictures: header, directory, pictures. 256 pixels are written as 0."""
    header = struct.pack("<HHH", 0, 1, len(pictures))
    offset = len(header) + 16 * len(pictures)
    directory = b""
    for size, png in pictures:
        side = size % 256
        directory += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(png), offset)
        offset += len(png)
    return header + directory + b"".join(png for _, png in pictures)


def _png(svg: bytes, size: int) -> bytes:
    from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    image = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(svg)).render(painter, QRectF(0, 0, size, size))
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())
