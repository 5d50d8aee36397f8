"""What the browser tests share: signing in, noticing errors, and reading a run's charts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from playwright.sync_api import ConsoleMessage, Page
from whole_lab import WholeLab

# Under load a run takes its time; these are limits for giving up, not expectations.
RUN_MS = 300_000


@dataclass
class Errors:
    """Errors of every watched page: the console's (which has violations of the content policy too) and exceptions."""

    expected: list[re.Pattern[str]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.found.append(f"{page.url}: {error}"))

    def expect(self, pattern: str) -> None:
        self.expected.append(re.compile(pattern))

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.found if not any(pattern.search(text) for pattern in self.expected)]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.location['url']}: {message.text}")


def sign_in(page: Page, lab: WholeLab) -> None:
    page.goto("/")
    page.get_by_label("User name").fill(lab.credentials["username"])
    page.get_by_label("Password").fill(lab.credentials["password"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Nodes").wait_for()


def wait_for_points(page: Page, at_least: int) -> int:
    """Waits until the run's charts show that many points; how many they show. A run that ends before fails the test."""
    page.wait_for_function(
        # A page that has just been gone to may not be parsed up to there.
        "least => { const run = document.querySelector('[data-run]')?.dataset;"
        " return run && (Number(run.points ?? 0) >= least || run.state === 'end'); }",
        arg=at_least,
        timeout=RUN_MS,
    )
    shown = points_shown(page)
    assert shown >= at_least, page.locator("#state").inner_text()
    return shown


def points_shown(page: Page) -> int:
    return int(page.locator("[data-run]").get_attribute("data-points") or 0)


def wait_for_end(page: Page) -> None:
    """Waits until the page has been told that nothing more will come."""
    page.locator("#connection[data-state=ended]").wait_for(timeout=RUN_MS)


def charted_times(page: Page) -> list[float]:
    """When each point of the throughput chart was, in the order in which the chart has them."""
    times: list[float] = page.evaluate("[...document.getElementById('chart-throughput').data[0].x]")
    return times


def assert_shows_every_sample(page: Page, lab: WholeLab, run_id: int) -> None:
    """The charts hold each sample that is stored of the run, once, in order."""
    samples = [sample["t_s"] for sample in lab.items(run_id, "series")]
    assert len(samples) > 0
    page.wait_for_function(
        "count => Number(document.querySelector('[data-run]').dataset.points) >= count", arg=len(samples)
    )
    assert charted_times(page) == samples
    assert points_shown(page) == len(samples)


def watch_shifts(page: Page) -> None:
    """From now on, keeps what moves in the page without anybody having touched it."""
    page.evaluate("""() => {
      window.shifts = [];
      new PerformanceObserver((list) => {
        for (const shift of list.getEntries()) {
          // A thousandth of the screen: a count that grows by a digit at the right end of its line moves that far.
          if (shift.hadRecentInput || shift.value < 0.001) continue;
          const moved = shift.sources.map(({ node }) => node?.outerHTML?.slice(0, 120) ?? node?.textContent ?? "?");
          window.shifts.push(`${shift.value.toFixed(4)}: ${moved.join(" | ")}`);
        }
      }).observe({ type: "layout-shift" });
    }""")


def shifts_seen(page: Page) -> list[str]:
    shifts: list[str] = page.evaluate("window.shifts")
    return shifts
