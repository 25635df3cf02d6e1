"""tests/server/test_playlists.py PROGRAM MAKE_CHECKPOINT - an upload that names other files or addresses (a playlist, a
list of files to join, a manifest, a session description) gets one clear 400, and nothing of what it names is opened.

A file counts as opened when inotify says so, an address when somebody connects to it.
"""
import ctypes
import os
import socket
import struct
import sys

from servertest import FOLDER, QUICK, Server, check, check_equal, done, make_model, sound

IN_OPEN, IN_ACCESS, NONBLOCK = 0x20, 0x1, 0x800


class Watch:
    """Names of files of a folder that anybody opened or read"""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(NONBLOCK)
        check(self.fd >= 0 and libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_OPEN | IN_ACCESS) >= 0,
              "inotify watches")

    def names(self):
        found = []
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return found
        while data:
            length = struct.unpack_from("iIII", data)[3]
            found.append(data[16:16 + length].rstrip(b"\0").decode())
            data = data[16 + length:]
        return found


def manifest(address):
    return ('<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
            'mediaPresentationDuration="PT3S" profiles="urn:mpeg:dash:profile:isoff-main:2011"><Period>'
            '<AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1">'
            f"<BaseURL>{address}</BaseURL></Representation></AdaptationSet></Period></MPD>")


def hls(address):
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:3,\n{address}\n#EXT-X-ENDLIST\n"


def uploads(folder, port):
    """(what, bytes, whether FFmpeg knows the kind in every build)"""
    files = [f"{folder}/secret.wav", f"file://{folder}/secret.wav", f"file:{folder}/secret.wav", "secret.wav",
             f"subfile,,start,0,end,0,,:{folder}/secret.wav", f"concat:{folder}/secret.wav",
             f"crypto:{folder}/secret.wav", f"cache:{folder}/secret.wav", f"async:{folder}/secret.wav"]
    addresses = [f"http://127.0.0.1:{port}/a.ts", f"tcp://127.0.0.1:{port}", f"hls+http://127.0.0.1:{port}/a.m3u8"]
    for address in files + addresses:
        yield f"HLS, {address}", hls(address), True
        yield f"HLS of lists, {address}", f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{address}\n", True
        yield f"HLS with a key, {address}", hls(address).replace(
            "#EXTINF", f'#EXT-X-KEY:METHOD=AES-128,URI="{address}"\n#EXTINF'), True
        yield f"files to join, {address}", f"ffconcat version 1.0\nfile '{address}'\nfile '{address}'\n", True
        yield f"DASH, {address}", manifest(address), False
    yield ("a session description", f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
           f"m=audio {port} RTP/AVP 0\n", True)
    yield "a list of names", f"#EXTM3U\n{folder}/secret.wav\n", False


def main():
    folder = os.path.join(FOLDER, "home")
    os.mkdir(folder)
    with open(os.path.join(folder, "secret.wav"), "wb") as stream:
        stream.write(sound(2))
    watch = Watch(folder)
    with socket.create_server(("127.0.0.1", 0)) as listener, Server("--model", make_model(sys.argv[2])) as server:
        listener.setblocking(False)
        for what, text, is_known in uploads(folder, listener.getsockname()[1]):
            answer = server.post(QUICK, ("list.m3u8", text.encode()))
            check_equal((answer.status, answer.error.get("param")), (400, "file"), f"{what}: {answer}")
            message = answer.error.get("message", "")
            check(message.startswith("file: ") and "\n" not in message, f"{what}: one line", message)
            check("playlist" in message if is_known else folder not in message, f"{what}: a clear line", message)
            check_equal(watch.names(), [], f"{what}: files opened")
            try:
                listener.accept()
                check(False, f"{what}: connects")
            except BlockingIOError:
                check(True, f"{what}: no connection")
        check_equal(server.ask("GET", "/health").status, 200, "it still answers")
        with open(os.path.join(folder, "secret.wav"), "rb") as stream:   # the watch sees what there is to see
            check_equal(server.post(QUICK, stream.read()).status, 200, "the recording itself")
        check("secret.wav" in watch.names(), "a file that is opened is noticed")
    done()


main()
