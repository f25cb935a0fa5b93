"""All checks of `validate`: what is measured, and against what.

In: a `Measure`. Out: `Check`s and `Skipped`s, group by group. Each group's docstring says what
its tolerance is for; see `expected` for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickbench import expected, published
from clickbench.expected import Check, Skipped, check_count, check_predicate, check_ratio, scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickbench.measure import Measure

Result = Check | Skipped

# Longest ordinary visits, in rows: where the published tops are scaled below it, other users
# and addresses come before them.
_LONGEST_VISIT = 460
_STOCK = "below a million rows the few common texts of thousands of counters outweigh the others"


def run_checks(measure: Measure, layout: str | None) -> Iterator[Result]:
    """Every check, in the order of the table; `layout` is None if it is not known."""
    yield from _predicates(measure)
    yield from _tops(measure)
    yield from _regions(measure)
    yield from _top_counters(measure)
    yield from _top_hosts(measure)
    yield from _empty_shares(measure)
    yield from _lengths(measure)
    yield from _distinct_values(measure)
    yield from _order(measure)
    yield from _numbers(measure)
    yield from _pruning(measure)
    yield from _answers(measure)
    yield from _sizes(measure, layout)


def _predicates(measure: Measure) -> Iterator[Result]:
    counts = measure.counts([predicate.sql for predicate in expected.PREDICATES])
    for predicate, count in zip(expected.PREDICATES, counts, strict=True):
        yield check_predicate(predicate, count, measure.rows)


def _top_list(  # noqa: PLR0913
    measure: Measure, name: str, key: str, values: dict[Any, int], *,
    where: str = "true", cluster: float = 2.0, ordinary: int = 0, tolerance: float = 0.1,
) -> Iterator[Result]:  # fmt: skip
    """Published tops: the rows of each, and that nothing else comes before the last of them."""
    counts = measure.groups(key, list(values), ["count(*)"], where)
    rows = measure.rows
    for value, full in values.items():
        shown = str(value).replace("\n", " ")[:34]
        yield check_count(
            f"top {name}", shown, measured=counts.get(value, (0,))[0], full=full, rows=rows,
            tolerance=tolerance, cluster=cluster,
        )  # fmt: skip
    last = scaled(min(values.values()), rows)
    if last < ordinary:
        reason = f"the last top has {last:.0f} rows here, an ordinary visit up to {ordinary}"
        yield Skipped(f"top {name}", "any other", reason)
        return
    most = measure.most_of_others(key, list(values), where)
    high = last * (1 + tolerance) + 3 * (last * cluster) ** 0.5
    yield Check(f"top {name}", "any other", most, last, 0, high)


def _tops(measure: Measure) -> Iterator[Result]:
    counted = '"CounterID" = 62 AND "IsRefresh" = 0 AND "DontCountHits" = 0'
    yield from _top_list(measure, "AdvEngineID (Q7)", '"AdvEngineID"', published.ADVERTS,
                         where='"AdvEngineID" <> 0', cluster=1.0)  # fmt: skip
    phrases = published.TOP_PHRASES
    yield from _top_list(measure, "SearchPhrase (Q12)", '"SearchPhrase"', phrases,
                         where="\"SearchPhrase\" <> ''")  # fmt: skip
    yield from _top_list(measure, "UserID (Q15)", '"UserID"', published.TOP_USERS,
                         ordinary=_LONGEST_VISIT)  # fmt: skip
    yield from _top_list(measure, "URL (Q33)", '"URL"', published.TOP_URLS, cluster=3.0)
    # Shared addresses: the visits of all users behind them, so clusters of some size.
    yield from _top_list(measure, "ClientIP (Q35)", '"ClientIP"', published.TOP_IPS,
                         cluster=40.0, ordinary=_LONGEST_VISIT)  # fmt: skip
    yield from _top_list(measure, "URL of 62 (Q36)", '"URL"', published.TOP_URLS_62,
                         where=counted, cluster=3.0)  # fmt: skip
    yield from _top_list(measure, "Title of 62 (Q37)", '"Title"', published.TOP_TITLES_62,
                         where=counted, cluster=3.0)  # fmt: skip


def _regions(measure: Measure) -> Iterator[Result]:
    """Rows and users of the top regions, and users of the top phones, who come in visits."""
    users = 'count(DISTINCT "UserID")'
    rows = measure.rows
    counts = measure.groups('"RegionID"', list(published.REGIONS), ["count(*)", users])
    for region, (full_rows, full_users) in published.REGIONS.items():
        measured_rows, measured_users = counts.get(region, (0, 0))
        if region not in {158, 55}:  # their rows are not published
            yield check_count("rows of RegionID (Q9)", str(region), rows=rows, tolerance=0.05,
                              measured=measured_rows, full=full_rows, cluster=25)  # fmt: skip
        yield check_count("users of RegionID (Q8)", str(region), rows=rows, tolerance=0.08,
                          measured=measured_users, full=full_users)  # fmt: skip
    models = measure.groups('"MobilePhoneModel"', list(published.MODELS), [users])
    for model, full in published.MODELS.items():
        yield check_count("users of model (Q10)", model, measured=models.get(model, (0,))[0],
                          full=full, rows=rows, tolerance=0.1)  # fmt: skip


def _top_counters(measure: Measure) -> Iterator[Result]:
    """Rows and URL lengths of the counters of Q27; means of few rows vary more."""
    mean_bytes = 'avg(octet_length("URL")) FILTER (WHERE "URL" <> \'\')'
    facts = measure.groups('"CounterID"', list(published.COUNTER_FACTS), ["count(*)", mean_bytes])
    rows = measure.rows
    for counter, (full, mean) in published.COUNTER_FACTS.items():
        count, measured = facts.get(counter, (0, 0.0))
        yield check_count("rows of CounterID (Q27)", str(counter), measured=count, full=full,
                          rows=rows, tolerance=0.01)  # fmt: skip
        freedom = 0.06 + 3 / max(count, 1) ** 0.5
        yield check_ratio("URL bytes of CounterID (Q27)", str(counter), expected=mean,
                          measured=measured, low=1 - freedom, high=1 + freedom)  # fmt: skip
    name = "counters above 100,000, scaled"
    if rows < expected.SMALL_ROWS:
        reason = "a counter of 100,000 rows has a few dozen here"
        yield Skipped("rows of CounterID (Q27)", name, reason)
        return
    [(large,)] = measure.query(
        'SELECT count(*) FROM (SELECT "CounterID" FROM hits GROUP BY "CounterID" '
        f"HAVING count(*) > {scaled(100_000, rows)})"
    )
    yield Check("rows of CounterID (Q27)", name, large, 100, 97, 103)


def _top_hosts(measure: Measure) -> Iterator[Result]:
    """Rows and lengths of the referers' hosts of Q28."""
    hosts = list(published.REFERER_HOST_FACTS)
    facts = measure.groups(expected.HOST, hosts, ["count(*)", 'avg(octet_length("Referer"))'])
    rows = measure.rows
    for host, (mean, full) in published.REFERER_HOST_FACTS.items():
        count, measured = facts.get(host, (0, 0.0))
        yield check_count("rows of host (Q28)", host, measured=count, full=full, rows=rows,
                          cluster=2.0)  # fmt: skip
        freedom = 0.08 + 3 / max(count, 1) ** 0.5
        yield check_ratio("Referer bytes of host (Q28)", host, expected=mean,
                          measured=measured, low=1 - freedom, high=1 + freedom)  # fmt: skip
    [(distinct,)] = measure.query(
        f"SELECT approx_distinct({expected.HOST}) FROM hits WHERE \"Referer\" <> ''"
    )
    if rows < expected.SMALL_ROWS:
        yield Skipped("distinct values", "hosts (Q28)", _STOCK)
        return
    yield check_count("distinct values", "hosts (Q28)", measured=distinct, rows=rows,
                      full=published.REFERER_HOSTS, tolerance=0.15)  # fmt: skip


def _empty_shares(measure: Measure) -> Iterator[Result]:
    counts = measure.counts([f"\"{name}\" = ''" for name in expected.EMPTY])
    for (name, facts), count in zip(expected.EMPTY.items(), counts, strict=True):
        full, tolerance, cluster = facts
        yield check_count("empty", name, measured=count, full=full, rows=measure.rows,
                          tolerance=tolerance, cluster=cluster)  # fmt: skip


def _lengths(measure: Measure) -> Iterator[Result]:
    for name, (mean, distinct_mean) in expected.LENGTHS.items():
        [(by_row,)] = measure.query(
            f'SELECT avg(octet_length("{name}")) FROM hits WHERE "{name}" <> \'\''
        )
        [(by_value,)] = measure.query(
            "SELECT avg(octet_length(t)) FROM "
            f'(SELECT "{name}" AS t FROM hits WHERE "{name}" <> \'\' GROUP BY t)'
        )
        freedom = expected.LENGTH_TOLERANCE
        yield check_ratio("bytes by row", name, measured=by_row or 0.0, expected=mean,
                          low=1 - freedom, high=1 + freedom)  # fmt: skip
        if measure.rows < expected.SMALL_ROWS:
            yield Skipped("bytes by distinct value", name, _STOCK)
            continue
        freedom = expected.DISTINCT_LENGTH_TOLERANCE
        yield check_ratio("bytes by distinct value", name, measured=by_value or 0.0,
                          expected=distinct_mean, low=1 - freedom, high=1 + freedom)  # fmt: skip


def _distinct_values(measure: Measure) -> Iterator[Result]:
    values = measure.distinct(list(expected.DISTINCT))
    for name, (full, low, high) in expected.DISTINCT.items():
        if measure.rows < expected.SMALL_ROWS and name in expected.LENGTHS:
            yield Skipped("distinct values", name, _STOCK)
            continue
        yield check_ratio("distinct values", name, measured=values[name],
                          expected=scaled(full, measure.rows), low=low, high=high)  # fmt: skip


def _order(measure: Measure) -> Iterator[Result]:
    """Nearly sorted: a fall where a displaced segment begins or ends, and nowhere else."""
    facts = measure.order()
    yield Check("order", "rows less than the one before", facts.falls, 16, 0, 60)
    yield check_count("order", "stretches with a SearchPhrase", measured=facts.search_runs,
                      full=published.SEARCH_RUNS, rows=measure.rows, tolerance=0.1)  # fmt: skip


def _numbers(measure: Measure) -> Iterator[Result]:
    """Means over all rows; the noise of users' numbers falls with the root of their count."""
    sql = (
        'SELECT avg("ResolutionWidth"), avg("UserID"), min("EventDate"), max("EventDate"), '
        'min("EventTime"), max("EventTime") FROM hits'
    )
    [(width, user, first, last, begin, end)] = measure.query(sql)
    freedom = 0.005 + 12 / measure.rows**0.5
    yield check_ratio("numbers", "mean ResolutionWidth (Q2)", measured=width, low=1 - freedom,
                      expected=published.MEAN_RESOLUTION_WIDTH, high=1 + freedom)  # fmt: skip
    yield check_ratio("numbers", "mean UserID (Q3)", measured=user, low=1 - 4 * freedom,
                      expected=published.MEAN_USER_ID, high=1 + 4 * freedom)  # fmt: skip
    yield _exact("first EventDate (Q6)", first, published.FIRST_DATE)
    yield _exact("last EventDate (Q6)", last, published.LAST_DATE)
    hour = 3600
    yield Check("numbers", "first EventTime", begin, published.FIRST_TIME, published.FIRST_TIME,
                published.FIRST_TIME + hour)  # fmt: skip
    yield Check("numbers", "last EventTime", end, published.LAST_TIME, published.LAST_TIME - hour,
                published.LAST_TIME)  # fmt: skip


def _exact(name: str, measured: int, value: int) -> Check:
    return Check("numbers", name, measured, value, value, value)


def _pruning(measure: Measure) -> Iterator[Result]:
    """Row groups that statistics leave, out of 226 in the real file."""
    group = "row groups left"
    left, total = measure.row_groups_left("CounterID", 62, 62)
    yield Check(group, f"CounterID = 62, of {total}", left, 3, 1, 3)
    left, _ = measure.row_groups_left("CounterID", 101, 499)
    yield Check(group, f"CounterID 101 to 499, of {total}", left, 2, 0, 3)
    needle = published.NEEDLE_USER
    users, _ = measure.row_groups_left("UserID", needle, needle)
    adverts, _ = measure.row_groups_left("AdvEngineID", 1, 32_767)
    if total < expected.FEW_ROW_GROUPS:
        few = f"{total} row groups here; a share of them says nothing"
        yield Skipped(group, "UserID of Q19", few)
        yield Skipped(group, "AdvEngineID <> 0", few)
        return
    # A segment is spread over several row groups only in a large data set, so all may be left.
    for name, left, of_all in (("UserID of Q19", users, 202), ("AdvEngineID <> 0", adverts, 212)):
        wanted = of_all / published.ROW_GROUPS * total
        yield Check(group, f"{name}, of {total}", left, wanted, 0.85 * wanted, total)


def _answers(measure: Measure) -> Iterator[Result]:
    """Queries with an offset or a least count: whether groups enough are there to answer."""
    rows = measure.rows
    for answer in expected.ANSWERS:
        [(found,)] = measure.query(
            f"SELECT count(*) FROM (SELECT count(*) AS c FROM hits "
            f"WHERE {answer.sql} GROUP BY {answer.key}) WHERE c > {answer.least}"
        )
        if found > answer.offset:
            yield Check("groups for an answer", answer.query, found, answer.full, answer.offset + 1,
                        max(answer.full * 2, answer.offset * 4))  # fmt: skip
        elif rows < 0.95 * published.ROWS:
            reason = (
                f"its answer is empty: {found:,} groups here, over {answer.offset:,} needed"
                + (f", of over {answer.least:,} rows each" if answer.least else "")
            )
            yield Skipped("groups for an answer", answer.query, reason)
        else:
            yield Check("groups for an answer", answer.query, found, answer.full,
                        answer.offset + 1, rows)  # fmt: skip


def _sizes(measure: Measure, layout: str | None) -> Iterator[Result]:
    """Compressed bytes per row; published for the layout of the real file only."""
    if layout != "clickbench":
        yield Skipped("bytes per row", "all columns", "published for the clickbench layout only")
        return
    if measure.rows < expected.SMALL_ROWS:
        yield Skipped("bytes per row", "all columns", _STOCK)
        return
    sizes = measure.column_bytes()
    low, high = expected.COMPRESSED_LOW, expected.COMPRESSED_HIGH
    for name, mib in expected.COMPRESSED_MIB.items():
        yield check_ratio("bytes per row", name, measured=sizes.pop(name) / measure.rows,
                          expected=mib * 2**20 / published.ROWS, low=low, high=high)  # fmt: skip
    yield check_ratio("bytes per row", f"the other {len(sizes)} columns", low=low, high=high,
                      measured=sum(sizes.values()) / measure.rows,
                      expected=expected.COMPRESSED_REST_MIB * 2**20 / published.ROWS)  # fmt: skip
    total = sum(metadata.serialized_size for metadata in measure.footers)
    total += sum(measure.column_bytes().values())
    yield check_ratio("bytes per row", "whole files", measured=total / measure.rows,
                      expected=147.8, low=0.8, high=1.25)  # fmt: skip
