"""What is published about the real `hits`: the figures the generator aims at and `validate` checks.

All counts are of the full table of 99,997,497 rows. They come from the answers to the 43 queries
that are kept with DuckDB and from measurements of the public files.
"""

from __future__ import annotations

ROWS = 99_997_497
ROW_GROUPS = 226

FIRST_TIME, LAST_TIME = 1_372_708_800, 1_375_300_799
FIRST_DATE, LAST_DATE = 15_888, 15_917
DAY_62 = 15_901  # 2013-07-15, the one day of CounterID 62
# A day begins at 20:00 UTC: dates are those of UTC+4.
DAY_STARTS_BEFORE_MIDNIGHT_S = 4 * 3600

COUNTERS = 6_506
# CounterID: (rows, mean bytes of its URLs): the 25 of Q27, out of 100 with over 100,000 rows.
COUNTER_FACTS = {
    233773: (2938865, 469.15), 245438: (2510103, 271.78), 122612: (3574007, 238.64),
    234004: (238660, 204.28), 1634: (323229, 197.83), 786: (120528, 186.75),
    114157: (216408, 142.91), 515: (146907, 126.23), 256004: (858171, 125.37),
    95427: (374306, 120.27), 199550: (7115413, 109.81), 220992: (494614, 105.85),
    196239: (163797, 98.35), 62: (738150, 93.16), 96948: (396093, 92.74),
    188878: (311998, 91.98), 249603: (120325, 91.88), 3922: (8527069, 87.84),
    191697: (124664, 86.96), 97467: (131178, 84.29), 186300: (802561, 83.97),
    146891: (605286, 77.77), 38: (507770, 76.44), 230962: (169223, 76.30),
    77639: (253961, 75.38),
}  # fmt: skip

USERS = 17_630_976
MEAN_USER_ID = 2.528953029789716e18
NEEDLE_USER = 435_090_932_899_640_449  # Q19: in 4 rows
NEEDLE_ROWS = 4
# UserID: rows (Q15).
TOP_USERS = {
    1313338681122956954: 29097, 1907779576417363396: 25333, 2305303682471783379: 10597,
    7982623143712728547: 7584, 6018350421959114808: 6678, 7280399273658728997: 6411,
    1090981537032625727: 6197, 5730251990344211405: 6019, 835157184735512989: 5211,
    770542365400669095: 4906,
}  # fmt: skip

ADVERTS = {
    2: 404602, 27: 113167, 13: 45631, 45: 38960, 44: 9730, 3: 6896, 62: 5266, 52: 3554, 50: 938,
    28: 836, 53: 350, 25: 343, 61: 158, 21: 38, 42: 20, 16: 7, 7: 3, 22: 1,
}  # fmt: skip

# RegionID: (rows, users) (Q8, Q9). Rows of 158 and 55 are not published; they are below 51's.
REGIONS = {
    229: (18295832, 2845673), 2: (6687587, 1081016), 208: (4261812, 831676),
    169: (3320229, 604583), 32: (1843518, 216010), 34: (1792369, 299479),
    184: (1755192, 322661), 42: (1542717, 243181), 107: (1516690, 272448),
    51: (1435578, 211505), 158: (1300000, 307152), 55: (1300000, 286525),
}  # fmt: skip
REGION_COUNT = 9_040

MEAN_RESOLUTION_WIDTH = 1513.4879349030107

MOBILE_ROWS = 5_560_000
MOBILE_USERS = 1_190_000
# MobilePhoneModel: users (Q10).
MODELS = {
    "iPad": 1090347, "iPhone": 45758, "A500": 16046, "N8-00": 5565, "iPho": 3300,
    "ONE TOUCH 6030A": 2759, "GT-P7300B": 1907, "3110000": 1871, "GT-I9500": 1598,
    "eagle75": 1492,
}  # fmt: skip
MODEL_COUNT = 165

SEARCH_ROWS = 13_172_392
SEARCH_RUNS = 7_030_000  # stretches of rows with a phrase
PHRASES = 6_019_103
# SearchPhrase: rows (Q12).
TOP_PHRASES = {
    "карелки": 70263, "албатрутдин": 34675, "смотреть онлайн": 24580,
    "смотреть онлайн бесплатно": 21647, "смотреть": 19707, "мангу в зарабей грама": 19195,
    "дружке помещение": 17284, "galaxy table": 16746, "экзоидные": 16620,
    "сколько мытищи": 12317,
}  # fmt: skip

GOOGLE_URL_ROWS = 15_911
GOOGLE_URL_SEARCH_ROWS = 1_040
GOOGLE_TITLE_ROWS = 37_000
GOOGLE_TITLE_SEARCH_ROWS = 7_130

EMPTY_URL_ROWS = 67_763
EMPTY_REFERER_ROWS = 18_964_761
EMPTY_TITLE_ROWS = 14_910_417
EMPTY_ORIGINAL_URL_ROWS = 82_975_640
URLS, REFERERS, TITLES, ORIGINAL_URLS = 18_342_019, 19_720_797, 9_425_424, 8_510_123
CLIENT_IPS = 9_762_046
REFERER_HOSTS = 3_007_986

# URL: rows (Q33).
TOP_URLS = {
    "http://liver.ru/belgorod/page/1006.jки/доп_приборы": 3288173,
    "http://kinopoisk.ru": 1625250,
    "http://bdsm_po_yers=0&with_video": 791465,
    "http://video.yandex": 582400,
    "http://smeshariki.ru/region": 514984,
    "http://auto_fiat_dlya-bluzki%2F8536.30.18&he=900&with": 507995,
    "http://liver.ru/place_rukodel=365115eb7bbb90": 359893,
    "http://kinopoisk.ru/vladimir.irr.ru": 354690,
    "http://video.yandex.ru/search/?jenre=50&s_yers": 318979,
    "http://tienskaia-moda": 289355,
}

# ClientIP: rows (Q35).
TOP_IPS = {
    -39921974: 47008, -1698104457: 29121, -1175819552: 25333, 1696638182: 20220,
    1138507705: 15778, -927025522: 12768, -1262139876: 11348, 1740861572: 11314,
    -807147100: 9880, -631062503: 9718,
}  # fmt: skip

# Host of Referer: (mean bytes, rows): the 25 of Q28, out of 77 with over 100,000 rows.
REFERER_HOST_FACTS = {
    "svpressa.ru": (307.86, 242465), "msuzie-showforumdisplay": (263.31, 183636),
    "saint-peters-total=меньше 80": (242.52, 200501), "domics": (212.90, 326080),
    "e96.ru": (210.09, 1018998), "gadgets.irr.ru": (131.95, 349675),
    "google.ru": (109.24, 2158346), "go.mail": (108.64, 8227493), "msouz.ru": (106.10, 301765),
    "state=19945206": (105.64, 512409), "loveplanet.ru": (104.60, 461134),
    "bonprix.ru": (104.41, 1125057), "novjob.ru": (96.75, 133049), "cn.ru": (95.63, 124674),
    "geomethiettai.ru": (94.78, 115906), "kino": (90.27, 120135),
    "yaroslavens.ru": (90.17, 124595), "mysw.info": (89.68, 984546),
    "m.myloveplanet.ru": (88.73, 151544), "povarenok.ru": (83.96, 144811),
    "gorod": (80.33, 110728), "yandsearch": (80.20, 245934), "myloveplanet.ru": (80.08, 110582),
    "tambov.irr.ru": (77.86, 315318), "kurortmag.ru": (75.75, 155263),
}  # fmt: skip

# Inside CounterID 62: rows left by the conditions of Q36 to Q42, and the tops of Q36 and Q37.
ROWS_62 = 738_150
ROWS_62_NO_REFRESH = 722_700
ROWS_62_COUNTED = 671_500  # neither IsRefresh nor DontCountHits
ROWS_62_TITLED = 660_300  # and with a Title
ROWS_62_LINKS = 47_740
ROWS_62_REFERER_HASH = 89_910
ROWS_62_URL_HASH = 102_700
TOP_URLS_62 = {
    "http://irr.ru/index.php?showalbum/login-leniya7777294,938303130": 102341,
    "http://komme%2F27.0.1453.116": 51218,
    "http://irr.ru/index.php?showalbum/login-kapusta-advert2668]=0&order_by=0": 18315,
    "http://irr.ru/index.php?showalbum/login-kapustic/product_name": 16461,
    "http://irr.ru/index.php": 12577,
    "http://irr.ru/index.php?showalbum/login": 10880,
    "http://komme%2F27.0.1453.116 Safari%2F5.0 (compatible; MSIE 9.0;": 7627,
    "http://irr.ru/index.php?showalbum/login-kupalnik": 4369,
    "http://irr.ru/index.php?showalbum/login-kapusta-advert27256.html_params": 4058,
    "http://komme%2F27.0.1453.116 Safari": 3021,
}
TOP_TITLES_62 = {
    "Тест (Россия) - Яндекс": 122407,
    "Шарарай), Выбрать! - обсуждаются на голд: Шоубиз - Свободная историс": 82935,
    "Приморск - IRR.ru": 80958,
    "Брюки New Era H (Асус) 258 общая выплаток, горшечными": 39098,
    "Теплоску на": 23123,
    "Dave and Hotpoint sport – самые вещие": 14329,
    "AUTO.ria.ua ™ - Аппер": 14053,
    "Приморск (Россия) - Яндекс.Видео": 13912,
    "OWAProfessign), продать": 10919,
    "Труси - Шоубиз": 10157,
}

HASH_OF_EMPTY_URL = -8417682003818480435
HASH_OF_EMPTY_REFERER = -296158784638538920
HASH_OF_REFERER_62 = 3594120000172545465
HASH_OF_URL_62 = 2868770270353813622
