//! The plot of a comparison: grouped bars, as an SVG file that follows the light or dark theme of the viewer.
//!
//! The crates `plotters` and `charming` do not replace this. `plotters` sets each colour as an attribute, without
//! classes or a style sheet, so its SVG has one theme. `charming` leaves drawing to JavaScript, in a browser or in an
//! embedded V8.

use std::fmt::Write as _;

use super::child::Way;
use super::report::{Report, Variant, scaled};

const PANEL: (f64, f64) = (290.0, 190.0);
const GAP: f64 = 62.0;
const TOP: f64 = 78.0;
const LEFT: f64 = 56.0;

/// Grey text is readable on white and on black. Viewers that tell their theme get better contrast.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#6e7781}.h{font-weight:600}.s{font-size:9px}\
.a{stroke:#6e7781}.g{stroke:#6e7781;stroke-opacity:.3}\
.on_demand{fill:#8b949e}.prefetch{fill:#3b82f6}.workers{fill:#1a9e6a}.load_all{fill:#e07b39}\
@media(prefers-color-scheme:light){text{fill:#24292f}}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}";

/// One panel: its title with the unit, the value of a bar, and how the value is printed.
struct Panel {
    title: &'static str,
    value: fn(&Variant) -> f64,
    label: fn(f64) -> String,
}

const PANELS: [Panel; 3] = [
    Panel { title: "throughput, tokens/s", value: |it| it.median.tokens_per_second, label: brief },
    Panel { title: "data wait, % of the time", value: |it| it.median.wait_share * 100.0, label: short },
    Panel {
        title: "peak memory, MiB",
        value: |it| it.median.peak_rss_bytes.unwrap_or_default() as f64 / f64::from(1 << 20),
        label: short,
    },
];

/// A number with its unit, short enough for a bar.
fn brief(value: f64) -> String {
    let (value, unit) = scaled(value);
    format!("{}{unit}", short(value))
}

/// A number of at most some hundreds, without needless digits.
fn short(value: f64) -> String {
    let digits = if value >= 10.0 || value == 0.0 { 0 } else { 1 + usize::from(value < 1.0) };
    format!("{value:.digits$}")
}

/// The CSS class of a way's bars, which sets their colour.
fn class(way: Way) -> &'static str {
    match way {
        Way::OnDemand => "on_demand",
        Way::Prefetch => "prefetch",
        Way::Workers => "workers",
        Way::LoadAll => "load_all",
    }
}

/// The whole plot.
pub(super) fn svg(report: &Report) -> String {
    let width = LEFT + PANELS.len() as f64 * PANEL.0 + (PANELS.len() - 1) as f64 * GAP + 12.0;
    let height = TOP + PANEL.1 + 46.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\">\
         <title>{}</title><style>{STYLE}</style>",
        escape(&report.title())
    );
    text(&mut out, (LEFT - 44.0, 20.0), "", &report.title());
    let mut x = LEFT - 44.0;
    for variant in report.workloads.iter().take(1).flat_map(|workload| &workload.variants) {
        let (name, class) = (variant.variant.name(), class(variant.variant));
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"32\" width=\"11\" height=\"11\"/>");
        text(&mut out, (x + 16.0, 42.0), "", name);
        x += 40.0 + 7.0 * name.len() as f64;
    }
    for (index, panel) in PANELS.iter().enumerate() {
        draw(&mut out, LEFT + index as f64 * (PANEL.0 + GAP), panel, report);
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, left: f64, panel: &Panel, report: &Report) {
    let (width, height) = PANEL;
    let bottom = TOP + height;
    let values = report.workloads.iter().flat_map(|workload| workload.variants.iter().map(panel.value));
    let step = tick(values.fold(0.0, f64::max));
    let y = |value: f64| bottom - height * value / (4.0 * step);
    text(out, (left - 44.0, TOP - 14.0), "class=\"h\"", panel.title);
    for tick in 0..=4 {
        let (value, class) = (f64::from(tick) * step, if tick == 0 { "a" } else { "g" });
        let (at, right) = (y(value), left + width);
        let _ = write!(
            out,
            "<line class=\"{class}\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
        text(out, (left - 6.0, at + 4.0), "text-anchor=\"end\"", &(panel.label)(value));
    }
    let group = width / report.workloads.len().max(1) as f64;
    for (index, workload) in report.workloads.iter().enumerate() {
        let start = left + index as f64 * group;
        let bar = (group * 0.84 / workload.variants.len().max(1) as f64).min(48.0);
        let from = start + (group - bar * workload.variants.len() as f64) / 2.0;
        for (place, variant) in workload.variants.iter().enumerate() {
            let (value, x) = ((panel.value)(variant), from + place as f64 * bar);
            let (top, way) = (y(value), class(variant.variant));
            let (tall, wide) = (bottom - top, bar - 2.0);
            let _ = write!(
                out,
                "<rect class=\"{way}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"/>"
            );
            let middle = "class=\"s\" text-anchor=\"middle\"";
            text(out, (x + wide / 2.0, top - 3.0), middle, &(panel.label)(value));
        }
        text(out, (start + group / 2.0, bottom + 17.0), "text-anchor=\"middle\"", &workload.shape.name());
    }
    text(out, (left + width / 2.0, bottom + 36.0), "text-anchor=\"middle\"", "rows × seq_len of a batch");
}

/// A round number, four of which reach as far as `most`.
fn tick(most: f64) -> f64 {
    let least = (most * 1.04 / 4.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|&round| round * power >= least);
    if most > 0.0 { round.unwrap_or(10.0) * power } else { 1.0 }
}

fn text(out: &mut String, (x, y): (f64, f64), attributes: &str, content: &str) {
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escape(content));
}

/// A text as XML has it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ticks_reach_what_is_highest_and_not_much_further() {
        for most in [0.001, 0.04, 1.0, 7.3, 24.0, 25.0, 99.9, 54.3e6] {
            let reach = 4.0 * tick(most);
            assert!(reach >= most && reach < 2.7 * most, "{most}: {reach}");
        }
        assert_eq!(tick(0.0), 1.0);
    }

    #[test]
    fn what_is_no_name_of_xml_is_escaped() {
        assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
