# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plots of bench/run: SVG files from the figures that bench/collect has joined."""

import re

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

# Text stays text in the SVG, because the files are then smaller and a reader can search
# them. The fixed salt makes the same figures give the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mountd",
                            "font.size": 10, "axes.grid": True, "grid.alpha": 0.3,
                            "axes.spines.top": False, "axes.spines.right": False})
WAYS = {  # who: (colour, line)
    "mountd": ("#1f6feb", "-"),
    "mount(8)": ("#cf222e", "-"),
    "CNI chain": ("#cf222e", "-"),
    "libmount": ("#8250df", "-"),
    "naive layout": ("#bf8700", "-"),
    "netavark": ("#bf8700", "-"),
    "system calls": ("#57606a", "--"),
    "messages": ("#57606a", "--"),
}


def look(who):
    return WAYS.get(who) or WAYS.get(who.split(" ")[0], ("#1a7f37", "-"))


def lines(series, area, pattern, figure):
    """Returns who -> [(the number in the point, microseconds)] for matching rows."""
    found = {}
    for row in series:
        match = re.fullmatch(pattern, row["point"])
        if row["area"] == area and match and figure in row:
            found.setdefault(row["who"], []).append((int(match[1]), row[figure]))
    return found


def finish(axes, title, path):
    axes.set_title(title, loc="left", fontsize=11)
    axes.figure.tight_layout()
    axes.figure.savefig(path, metadata={"Date": None})
    pyplot.close(axes.figure)


def draw_lines(found, labels, path):
    title, across, up = labels
    axes = pyplot.figure(figsize=(7, 4)).add_subplot()
    for who, points in found.items():
        colour, line = look(who)
        points.sort()
        axes.plot([x for x, _ in points], [y for _, y in points], line, color=colour,
                  marker="o", markersize=4, label=who)
    axes.set_yscale("log")
    axes.set_xscale("symlog", linthresh=100, linscale=0.5)
    ticks = sorted({x for points in found.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
    axes.set_xlim(ticks[0] - 8, ticks[-1] * 1.15)
    axes.minorticks_off()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    finish(axes, title, path)


def colours(bars):
    names = dict.fromkeys(part for parts in bars.values() for part, _ in parts)
    return {name: pyplot.get_cmap("tab20")(i % 20) for i, name in enumerate(names)}


def draw_parts(bars, path):
    """Draws each of bars, name -> [(part, microseconds)], as a row of parts end to end."""
    axes = pyplot.figure(figsize=(8, 2 + 0.8 * len(bars))).add_subplot()
    colour_of = colours(bars)
    for at, (name, parts) in enumerate(bars.items()):
        left = 0
        total = sum(value for _, value in parts)
        for part, value in parts:
            axes.barh(at, value, left=left, height=0.5, color=colour_of[part],
                      edgecolor="white")
            if value > total * 0.04:
                axes.text(left + value / 2, at, f"{value:.0f}", ha="center", va="center",
                          fontsize=8)
            left += value
        axes.text(left, at, f" {left:.0f}", va="center", fontsize=9)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set_xlabel("microseconds, medians")
    axes.margins(x=0.1)
    axes.legend([pyplot.Rectangle((0, 0), 1, 1, color=one) for one in colour_of.values()],
                list(colour_of), ncol=5, frameon=False, fontsize=8, loc="upper center",
                bbox_to_anchor=(0.45, -0.28))
    finish(axes, "Where one call spends its time", path)


def value_of(series, area, point, who, figure):
    for row in series:
        if (row["area"], row["point"], row["who"]) == (area, point, who):
            return row.get(figure)
    return None


def setup_network_parts(series):
    point, figure = "0 present, 8 ports", "setup_p50_us"

    def at(who, of=figure):
        return value_of(series, "network", point, who, of)

    if at("mountd") is None:
        return None
    parts = [("empty call", at("empty")),
             ("empty plan", at("empty", "teardown_p50_us"))]
    parts += [(name, value_of(series, "network", "messages, parts", name, figure))
              for name in ("veth", "eth0", "carrier", "elements")]
    return with_rest(parts, at("mountd"))


def publish_volume_parts(series):
    figure = "publish_p50_us"
    rows = {row["who"]: row[figure] for row in series
            if row["area"] == "csi" and row["point"] == "csi-local" and figure in row}
    if "mountd" not in rows:
        return None
    parts = [(who, value) for who, value in rows.items() if who != "mountd"]
    return with_rest(parts, rows["mountd"])


def with_rest(parts, whole):
    """Adds the rest of the time: records, checks, and ways between threads."""
    rest = whole - sum(value for _, value in parts)
    return [*parts, ("the rest", max(rest, 0))]


def draw(whole, directory):
    """Draws the plots for which there are figures."""
    directory.mkdir(parents=True, exist_ok=True)
    series = whole["series"]
    mounts = lines(series, "mounts", r"(\d+) other mounts", "mount_p50_us")
    mounts.pop("empty", None)
    if mounts:
        draw_lines(mounts, ("A read-only rslave bind mount", "other mounts on the host",
                            "microseconds, median"), directory / "mounts.svg")
    networks = lines(series, "network", r"(\d+) present, 8 ports", "setup_p50_us")
    for who in ("empty", "mountd x16", "each of them", "namespace"):
        networks.pop(who, None)
    if networks:
        draw_lines(networks, ("An allocation's network with 8 ports",
                              "other allocations present", "microseconds, median"),
                   directory / "network.svg")
    bars = {name: parts for name, parts in
            (("PublishVolume", publish_volume_parts(series)),
             ("SetupNetwork", setup_network_parts(series))) if parts}
    if bars:
        draw_parts(bars, directory / "spent.svg")
