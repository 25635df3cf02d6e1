"""max_whisper/ray/_store.py - a folder of files, on a disk or wherever fsspec reaches, and recordings by path or URL.

In: names relative to the folder, with "/". Out: bytes. Invariants: a file is whole or not there, whatever dies while it
is written; a path without "://" needs no fsspec.
"""
from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from ._needs import need

# Stores whose objects appear when they are complete; elsewhere a file is written under another name and moved.
WHOLE_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory"}


def local_path(path: str) -> str | None:
    """The path of a file of this machine, or None for a URL."""
    if path.startswith(("file://", "local://")):
        return path.split("://", 1)[1]
    return None if "://" in path else path


def absolute(path: str, folder: str = "") -> str:
    """A path that means the same on every machine; a relative one is relative to the folder."""
    here = local_path(path)
    if here is None:
        return path
    if os.path.isabs(here):
        return here
    there = local_path(folder) if folder else ""
    if there is None:
        return folder.rstrip("/") + "/" + here
    return os.path.abspath(os.path.join(there, here))


def open_recording(path: str) -> str | BinaryIO:
    """What Model.transcribe takes: a path of this machine, or an open file of fsspec's."""
    here = local_path(path)
    if here is not None:
        return here
    opened: BinaryIO = need("fsspec", path).open(path, "rb").open()
    return opened


def size_of(path: str) -> int:
    """Bytes; raises where there is no such file."""
    here = local_path(path)
    if here is not None:
        return os.stat(here).st_size
    system, inside = need("fsspec", path).core.url_to_fs(path)
    return int(system.size(inside) or 0)


class Store:
    """A folder. Travels to other machines as its name."""

    def __init__(self, root: str) -> None:
        self.root = absolute(root)
        self._here = local_path(self.root)
        self._system: Any = None
        self._inside = ""
        self._in_place = False
        if self._here is None:
            fsspec = need("fsspec", root)
            self._system, self._inside = fsspec.core.url_to_fs(self.root)
            protocol = self._system.protocol
            names = {protocol} if isinstance(protocol, str) else set(protocol)
            self._in_place = bool(names & WHOLE_OBJECTS)

    def __reduce__(self) -> Any:
        return Store, (self.root,)

    def _path(self, name: str) -> str:
        return "/".join(((self._here if self._here is not None else self._inside).rstrip("/"), name)).rstrip("/")

    # ---- reading -------------------------------------------------------------------------------------------------

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """All of it, or the bytes from start to end; FileNotFoundError."""
        if self._here is not None:
            with open(self._path(name), "rb") as stream:
                stream.seek(start)
                return stream.read() if end is None else stream.read(end - start)
        data: bytes = self._system.cat_file(self._path(name), start=start or None, end=end)
        return data

    def read_or_none(self, name: str) -> bytes | None:
        """The same; None where there is no such file."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def open(self, name: str) -> BinaryIO:
        """A file to read from."""
        if self._here is not None:
            return open(self._path(name), "rb")
        opened: BinaryIO = self._system.open(self._path(name), "rb")
        return opened

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        if self._here is not None:
            return os.path.exists(self._path(name))
        self._system.invalidate_cache()
        return bool(self._system.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names in the folder itself, in order, unfinished files left out; [] where there is no such folder."""
        try:
            if self._here is not None:
                found = os.listdir(self._path(folder))
            else:
                self._system.invalidate_cache()
                found = [name.rstrip("/").rsplit("/", 1)[-1] for name in
                         self._system.ls(self._path(folder), detail=False)]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith(".tmp-"))

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, name: str, data: bytes) -> None:
        """The whole file, or nothing."""
        if self._in_place:
            self._system.pipe_file(self._path(name), data)
            return
        with self.replacing(name) as stream:
            stream.write(data)

    @contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A file to write to, which takes its name, and the place of an older one, when the block ends well."""
        path = self._path(name)
        folder = path.rsplit("/", 1)[0]
        unfinished = f"{folder}/.tmp-{uuid.uuid4().hex}"
        if self._here is not None:
            os.makedirs(folder, exist_ok=True)
            try:
                with open(unfinished, "wb") as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(unfinished, path)
            except BaseException:
                if os.path.exists(unfinished):
                    os.remove(unfinished)
                raise
            return
        self._system.makedirs(folder, exist_ok=True)
        try:
            with self._system.open(unfinished, "wb") as stream:
                yield stream
            self._system.mv(unfinished, path)
        except BaseException:
            if self._system.exists(unfinished):
                self._system.rm(unfinished)
            raise

    def remove(self, name: str) -> None:
        """A file, or a folder with all in it; fine if it is not there."""
        path = self._path(name)
        try:
            if self._here is None:
                self._system.rm(path, recursive=True)
            elif os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.remove(path)
        except FileNotFoundError:
            pass
