"""A proxy in front of an object store, with latency, limited bandwidth, faults and a log.

    python -m tests.store_proxy LISTEN UPSTREAM

In: HTTP/1.1 requests for the store on a loopback port, and orders for the proxy itself:
`GET /__set?latency_ms=40&bandwidth=100e6&fail=0.05&cut=0.05&hang=0.01&hang_s=5` and `GET /__log`.
Out: the answers of the store, late, slow or broken as ordered; the log since it was last asked for.

Faults hit requests at random, from a seed. `/__log` gives requests, bytes of bodies, and the most
requests that were under way at once.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress

BLOCK = 1 << 17


class Proxy:
    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.settings = {
            "latency_ms": 0.0,
            "bandwidth": 0.0,
            "fail": 0.0,
            "cut": 0.0,
            "hang": 0.0,
            "hang_s": 5.0,
        }
        self.random = random.Random(7)
        self.begin_log()
        self.active = 0
        self.free_at = 0.0

    def begin_log(self) -> None:
        self.log: list[list[object]] = []
        self.peak = 0

    def hits(self, fault: str) -> bool:
        return self.random.random() < self.settings[fault]

    async def serve(self, reader, writer) -> None:
        upstream = None
        try:
            while True:
                raw, first, headers = await read_head(reader)
                method, path, _ = first.split(" ", 2)
                if path.startswith("/__"):
                    await self.obey(path, writer)
                    continue
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.active += 1
                self.peak = max(self.peak, self.active)
                entry = [method, path, headers.get("range", ""), 0, 0]
                self.log.append(entry)
                try:
                    if upstream is None:
                        upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
                    if not await self.answer(method, raw + body, upstream, writer, entry):
                        break
                finally:
                    self.active -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if upstream is not None:
                upstream[1].close()

    async def obey(self, path: str, writer) -> None:
        answer = {"requests": len(self.log), "peak": self.peak, "log": self.log}
        answer["bytes"] = sum(entry[4] for entry in self.log)
        if path.startswith("/__set"):
            for name, value in urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query):
                self.settings[name] = float(value)
        else:
            self.begin_log()
        text = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()

    async def answer(self, method: str, request: bytes, upstream, writer, entry) -> bool:
        """Answers a request; False if the connection is not to be used again."""
        await asyncio.sleep(self.settings["latency_ms"] / 1e3)
        if self.hits("hang"):
            await asyncio.sleep(self.settings["hang_s"])
            return False
        if self.hits("fail"):
            entry[3] = 503
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return True
        upstream[1].write(request)
        await upstream[1].drain()
        raw, first, headers = await read_head(upstream[0])
        entry[3] = int(first.split(" ")[1])
        writer.write(raw)
        if method == "HEAD" or entry[3] in (204, 304):
            await writer.drain()
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            await self.relay_chunks(upstream[0], writer, entry)
        else:
            length = int(headers.get("content-length", 0))
            is_cut = length > 100 and self.hits("cut")
            entry[4] = length // 2 if is_cut else length
            await self.relay(upstream[0], writer, entry[4])
            if is_cut:
                return False
        return headers.get("connection", "").lower() != "close"

    async def relay(self, reader, writer, left: int) -> None:
        while left:
            data = await reader.read(min(left, BLOCK))
            if not data:
                raise ConnectionError("the store closed the connection")
            left -= len(data)
            if self.settings["bandwidth"]:
                now = time.perf_counter()
                self.free_at = max(now, self.free_at) + len(data) / self.settings["bandwidth"]
                await asyncio.sleep(self.free_at - now)
            writer.write(data)
            await writer.drain()

    async def relay_chunks(self, reader, writer, entry) -> None:
        while True:
            line = await reader.readuntil(b"\r\n")
            length = int(line.split(b";")[0], 16)
            writer.write(line + await reader.readexactly(length + 2))
            entry[4] += length
            if not length:
                await writer.drain()
                return


async def read_head(reader) -> tuple[bytes, str, dict[str, str]]:
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw.decode("latin1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return raw, first, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def main() -> None:
    listen, upstream = map(int, sys.argv[1:])
    proxy = Proxy(upstream)
    server = await asyncio.start_server(
        proxy.serve, "127.0.0.1", listen, limit=1 << 20, backlog=500
    )
    async with server:
        await server.serve_forever()


class ProxyControl:
    """Orders for a proxy in another process."""

    def __init__(self, port: int) -> None:
        self.port = port

    def set(self, **settings: float) -> None:
        self._ask("/__set?" + urllib.parse.urlencode(settings))

    def log(self) -> dict:
        """Requests since the last call."""
        return self._ask("/__log")

    def _ask(self, path: str) -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def running_proxy(listen: int, upstream: int):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store_proxy", str(listen), str(upstream)]
    )
    try:
        control = ProxyControl(listen)
        for _ in range(200):
            with suppress(OSError):
                control.log()
                break
            time.sleep(0.05)
        yield control
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main())
