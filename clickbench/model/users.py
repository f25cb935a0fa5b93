"""Columns that a user brings: address, browser, screen, phone, age, flags.

In: the visits of a block. Out: one array per column and visit, to be repeated over its rows. A
value is a hash of the user, so it is the same wherever the user shows up; the exceptions are the
window (one per visit) and the clocks.

Invariant: MobilePhoneModel is not empty exactly where the user is a mobile one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from clickbench import published
from clickbench.model.noise import Bits, Choice, Integers, Noise, log_rank, to_unit
from clickbench.model.plan import FIXED_USERS, Plan
from clickbench.model.visits import Visits, universe

_WIDTHS = np.array([1304, 1368, 1479, 1638, 1749, 1750, 1828, 1917, 1990, 1996, 1087, 2064])
_WIDTH_WEIGHTS = np.array([8, 12, 10, 27, 15, 3, 5, 9, 4, 4, 1.5, 1.5])
_MEAN_WIDTH = float((_WIDTHS * _WIDTH_WEIGHTS).sum() / _WIDTH_WEIGHTS.sum())
# Users without a known screen; they pull the mean down to the published one.
_NO_SCREEN = 1 - published.MEAN_RESOLUTION_WIDTH / _MEAN_WIDTH
_WIDTH = Choice(_WIDTH_WEIGHTS)
_HEIGHTS = np.array([867, 879, 978, 1017, 1052, 1206, 1297, 1658, 1666, 1781])

_MODEL_NAMES = [
    *published.MODELS,
    *[
        f"{maker}-{number}"
        for number in range(100, 131)
        for maker in ("GT", "LG", "HTC", "Nokia", "SM")
    ][: published.MODEL_COUNT - len(published.MODELS)],
]
_MODEL_WEIGHTS = np.concatenate(
    [list(published.MODELS.values()), np.geomspace(1_300, 5, published.MODEL_COUNT - 10)]
)
_MODEL = Choice(_MODEL_WEIGHTS)
_PHONES = np.array([1, 5, 6, 7, 10, 32, 13, 26, 118, 49])
# Which phone code goes with a model: of iPads, iPhones, and of all others (one code each).
_PAD_PHONE = Choice([931038, 48385, 29710, 28391, 11433, 9503, 9417, 8000, 7000, 6000])
_IPHONE_PHONE = Choice([0, 2000, 14516, 4000, 2000, 2000, 2000, 13566, 0, 5000])

_IP_POOL_PER_USER = 0.285  # of the universe; leaves 9.76 addresses per 17.63 users
_TOP_IP_IDS = np.array([*published.TOP_IPS])
# The second and third address belong to one user each; the others are shared.
_SHARED = [0, 3, 4, 5, 6, 7, 8, 9]
_SHARED_EDGES = np.cumsum(np.array(list(published.TOP_IPS.values()))[_SHARED]) / published.ROWS
_OWN_IP = {FIXED_USERS[1]: -1698104457, FIXED_USERS[2]: -1175819552}

# Name: values, weights. One draw per user each.
_SIMPLE: dict[str, tuple[list[int], list[float]]] = {
    "JavaEnable": ([1, 0], [68, 32]),
    "UserAgentMajor": ([22, 16, 15, 13, 18, 1, 7, 5, 20], [24, 14, 12, 10, 10, 9, 9, 6, 6]),
    "ResolutionDepth": ([37, 23, 22], [60, 30, 10]),
    "FlashMajor": ([15, 14, 13, 0, 8], [74, 8, 4, 12, 2]),
    "FlashMinor": ([7, 3, 4, 0, 1, 8], [48, 18, 12, 14, 5, 3]),
    "NetMajor": ([0, 2, 4, 3], [68, 22, 7, 3]),
    "NetMinor": ([0, 7, 1], [78, 20, 2]),
    "CookieEnable": ([1, 0], [985, 15]),
    "JavascriptEnable": ([1, 0], [97, 3]),
    "ClientTimeZone": ([135, 322, 433, -1, 201, 390], [58, 14, 10, 8, 6, 4]),
    "SilverlightVersion1": ([0, 4, 5], [62, 33, 5]),
    "SilverlightVersion2": ([0, 1], [63, 37]),
    "SilverlightVersion3": ([0, 16561, 15738, 10411], [63, 28, 6, 3]),
    "Age": ([0, 31, 50, 26, 22, 16, 39], [36, 20, 12, 11, 9, 6, 6]),
    "Sex": ([0, 1, 2], [36, 32, 32]),
    "Income": ([0, 2, 3, 4], [36, 34, 24, 6]),
    "Robotness": ([0, 1, 2, 31, 30, 57], [70, 9, 7, 6, 4, 4]),
    "CodeVersion": ([1, 1601, 0, 291], [46, 44, 6, 4]),
}
_SIMPLE_CHOICES = {name: Choice(weights) for name, (_, weights) in _SIMPLE.items()}
_STRINGS: dict[str, tuple[list[str], list[float]]] = {
    "FlashMinor2": (["700", "700.224", "", "800", "602.180"], [56, 14, 18, 8, 4]),
    "UserAgentMinor": (["DЄ", "nA", "фO", "S1", "q0"], [70, 14, 8, 5, 3]),
    "HitColor": (["5", "6", "E", "g"], [80, 10, 6, 4]),
    "BrowserLanguage": (["S0", "E3", "ру", "S1"], [70, 16, 8, 6]),
    "BrowserCountry": (["h1", "_i", "я\x0c", "v2"], [64, 18, 12, 6]),
}
_STRING_CHOICES = {name: Choice(weights) for name, (_, weights) in _STRINGS.items()}
_OS_COUNT = 91
_AGENT_COUNT = 70


def make_user_columns(plan: Plan, visits: Visits) -> dict[str, Integers | pa.Array]:
    """Columns by name, one value per visit."""
    noise = Noise(plan.seed)
    user = visits.user
    columns: dict[str, Integers | pa.Array] = {}
    for name, (values, _) in _SIMPLE.items():
        pick = _SIMPLE_CHOICES[name].pick(noise.uniform(name, user))
        columns[name] = np.array(values)[pick]
    for name, (texts, _) in _STRINGS.items():
        pick = _STRING_CHOICES[name].pick(noise.uniform(name, user))
        columns[name] = pa.array(texts).take(pa.array(pick))
    columns |= _screen(visits, noise)
    columns |= _phone(visits, noise)
    columns |= _address(plan, visits, noise)
    columns["OS"] = np.array([2, 44, 0, 39, *range(100, 100 + _OS_COUNT)])[
        log_rank(noise.uniform("OS", user), _OS_COUNT)
    ]
    columns["UserAgent"] = np.array([7, 3, 5, 88, 0, *range(100, 100 + _AGENT_COUNT)])[
        log_rank(noise.uniform("UserAgent", user), _AGENT_COUNT)
    ]
    columns["Interests"] = np.where(columns["Age"] > 0, noise.below("Interests", user, 16_000), 0)
    columns["UserID"] = visits.user_id
    columns["RegionID"] = visits.region
    unknown = noise.uniform("no unique id", user) < 0.17
    columns["FUniqID"] = np.where(unknown, 0, _positive(noise.bits("FUniqID", user)))
    return columns


def _positive(bits: Bits) -> Integers:
    """Numbers of 62 bits and over, as ids in the real data are."""
    return ((bits >> np.uint64(2)) | np.uint64(1 << 62)).astype(np.int64)


def _screen(visits: Visits, noise: Noise) -> dict[str, Integers]:
    user = visits.user
    none = noise.uniform("no screen", user) < _NO_SCREEN
    width = np.where(none, 0, _WIDTHS[_WIDTH.pick(noise.uniform("width", user))])
    height = np.where(none, 0, _HEIGHTS[noise.below("height", user, len(_HEIGHTS))])
    # A window is nearly full or of any size below.
    part = np.sqrt(noise.uniform("window width", visits.id))
    window_width = np.where(none, 0, (width * (0.45 + 0.55 * part)).astype(np.int64) // 6 * 6)
    part = np.sqrt(noise.uniform("window height", visits.id))
    window_height = np.where(none, 0, (height * (0.35 + 0.4 * part)).astype(np.int64) // 6 * 6)
    return {
        "ResolutionWidth": width,
        "ResolutionHeight": height,
        "WindowClientWidth": window_width,
        "WindowClientHeight": window_height,
    }


def _phone(visits: Visits, noise: Noise) -> dict[str, Integers | pa.Array]:
    user = visits.user
    model = _MODEL.pick(noise.uniform("model", user))
    unit = noise.uniform("phone", user)
    code = np.where(
        model == 0,
        _PAD_PHONE.pick(unit),
        np.where(model == 1, _IPHONE_PHONE.pick(unit), np.where(model == 2, 8, model % 10)),
    )
    names = pa.array([*_MODEL_NAMES, ""])
    mobile = visits.mobile
    return {
        "MobilePhone": np.where(mobile, _PHONES[code], 0),
        "IsMobile": mobile.astype(np.int64),
        "MobilePhoneModel": names.take(pa.array(np.where(mobile, model, len(names) - 1))),
    }


def _address(plan: Plan, visits: Visits, noise: Noise) -> dict[str, Integers]:
    pool = max(int(universe(plan) * _IP_POOL_PER_USER), 50)
    number = noise.below("address", visits.user, pool)
    address = _signed_32(noise.bits("ip", number))
    shared = np.searchsorted(_SHARED_EDGES, noise.uniform("shared address", visits.user), "right")
    is_shared = shared < len(_SHARED)
    shared_ids = _TOP_IP_IDS[_SHARED][np.minimum(shared, len(_SHARED) - 1)]
    address = np.where(is_shared, shared_ids, address)
    for user_id, own in _OWN_IP.items():
        address[visits.user_id == user_id] = own
    return {
        "ClientIP": address,
        "RemoteIP": _signed_32(noise.bits("remote ip", address)),
        "IPNetworkID": (to_unit(noise.bits("network", address)) * 4_200_000).astype(np.int64),
    }


def _signed_32(bits: Bits) -> Integers:
    return (bits >> np.uint64(32)).astype(np.int64) - (1 << 31)
