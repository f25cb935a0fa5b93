"""All literal texts, in groups, and the arena that holds them.

In: the name of a group and a number in it. Out: the number of the literal in the arena.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from clickbench import published
from clickbench.model.text import Arena

_SITES = (
    "kinopoisk.ru irr.ru auto.ria.ua afisha.mail.ru holodilnik.ru smeshariki.ru e96.ru rsdn.ru "
    "bonprix.ru povarenok.ru loveplanet.ru yandsearch video.yandex.ru wildberries.ru kurortmag.ru "
    "tambov.irr.ru gadgets.irr.ru novjob.ru cn.ru state.rn.ru domchelove.ru msouz.ru rmnt.ru "
    "avtogsm.ru produkty.pro svpressa.ru sslow.ru tvidi.ru pogoda.yandex lenta.su real-estate.nn"
).split()
COMMON_HOSTS = 52  # hosts of referers above 100,000 rows that Q28 does not list
RARE_HOSTS = 4_000  # hosts below 100,000 rows

_GROUPS: dict[str, tuple[str, ...]] = {
    "nothing": ("",),
    "space": (" ",),
    "slash": ("/",),
    "http": ("http://",),
    "phrases": tuple(published.TOP_PHRASES),
    "sites": tuple(f"http://{site}/" for site in _SITES),
    "top urls": tuple(published.TOP_URLS),
    "urls 62": tuple(published.TOP_URLS_62),
    "titles 62": tuple(published.TOP_TITLES_62),
    "referer 62": ("http://irr.ru/index.php?showalbum/login-kapusta",),
    "google urls": (
        "http://smeshariki.ru/googleTBR%26ad",
        "http://e96.ru/search/page.googleTBR%26ad%3D0%26rnd",
        "http://bjdswaps.google-photo",
        "http://rsdn.ru/catalog/index,google.ru/news/",
        "http:%2F%2Fwwww.google.com/url",
    ),
    "google titles": ("видеорегионалу Google - ", "Легко на купить Google ", "Google Player 1.2 "),
    "broken urls": ("http://forum.nn.ru/page\n", "http://auto\n\t.ria.ua/\\q?"),
    "known hosts": tuple(f"http://{host}/" for host in published.REFERER_HOST_FACTS),
    "common hosts": tuple(f"http://site{n:02}.yandex.ru/" for n in range(COMMON_HOSTS)),
    "rare hosts": tuple(f"http://www.s{n}.narod.ru/" for n in range(RARE_HOSTS)),
}
_SIZES = [len(texts) for texts in _GROUPS.values()]
_FIRST = dict(zip(_GROUPS, (int(n) for n in np.cumsum([0, *_SIZES])), strict=False))

NOTHING = _FIRST["nothing"]


def first(group: str) -> int:
    """The number of the first literal of a group."""
    return _FIRST[group]


def size(group: str) -> int:
    """How many literals a group has."""
    return len(_GROUPS[group])


@cache
def arena() -> Arena:
    """The arena of all literals, made once in a process."""
    return Arena([text for texts in _GROUPS.values() for text in texts])
