"""max_whisper/_notebook.py - a result as HTML for notebooks: a table of segments and, of a file, an audio player.

Invariant: all text is escaped; the page needs no network.
"""
from __future__ import annotations

import base64
import html
import mimetypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._types import Result

MAX_ROWS = 1000
MAX_AUDIO_BYTES = 16 << 20   # a larger file would make the notebook's own file too large

# A click on a time plays from there.
_PLAY = ("var a=this.closest('div').querySelector('audio');if(a){a.currentTime=%s;a.play();}return false;")


def clock(seconds: float) -> str:
    """1:02:03.45, or 2:03.45"""
    hundredths = round(max(seconds, 0.0) * 100)
    minutes, rest = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{head}:{rest / 100:05.2f}"


def _player(source: str | None) -> str:
    if not source or not os.path.isfile(source) or os.path.getsize(source) > MAX_AUDIO_BYTES:
        return ""
    kind = mimetypes.guess_type(source)[0] or "audio/wav"
    if not kind.startswith(("audio/", "video/")):
        return ""
    with open(source, "rb") as stream:
        data = base64.b64encode(stream.read()).decode("ascii")
    return f'<audio controls preload="metadata" src="data:{html.escape(kind)};base64,{data}"></audio>'


def result_html(result: Result) -> str:
    """The page of a result."""
    speakers = any(segment.speaker for segment in result.segments)
    rows = []
    for segment in result.segments[:MAX_ROWS]:
        play = html.escape(_PLAY % f"{segment.start:.2f}")
        cells = [f'<td style="text-align:right"><a href="#" onclick="{play}">{clock(segment.start)}</a></td>',
                 f'<td style="text-align:right">{clock(segment.end)}</td>']
        if speakers:
            cells.append(f"<td>{html.escape(segment.speaker or '')}</td>")
        faint = ";opacity:.5" if segment.suspicion > 0.5 else ""
        title = f' title="suspect: {html.escape(", ".join(segment.reasons))}"' if segment.reasons else ""
        cells.append(f'<td style="text-align:left{faint}"{title}>{html.escape(segment.text.strip())}</td>')
        rows.append("<tr>" + "".join(cells) + "</tr>")
    left = len(result.segments) - MAX_ROWS
    more = f"<p>… and {left} more segments</p>" if left > 0 else ""
    head = "<th>start</th><th>end</th>" + ("<th>speaker</th>" if speakers else "") + "<th>text</th>"
    name = html.escape(os.path.basename(result.source)) + ", " if result.source else ""
    language = html.escape(result.language or "no language")
    return (f"<div><p>{name}{clock(result.duration)}, {language}</p>{_player(result.source)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}</div>")
