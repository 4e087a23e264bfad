//! A chart as SVG, for pages without a script. `page.js` draws the same in its place, of any part and any size.

use std::fmt::Write;

use super::curve::Point;
use super::unit::{Kind, Unit};

/// Around the curves, for the numbers on the axes: left, right, above, below.
const MARGIN: [f64; 4] = [56.0, 14.0, 22.0, 34.0];

/// The radius of a curve that is a single point.
const DOT: u32 = 3;

/// A curve to draw.
#[derive(Debug)]
pub(super) struct Drawn {
    /// The number of its run.
    pub(super) run: usize,
    pub(super) is_dashed: bool,
    pub(super) points: Vec<Point>,
    /// Its mean, if it is noisy.
    pub(super) smooth: Vec<Point>,
}

/// What an axis covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// What covers all values, with some room if it does not begin at 0.
    pub(super) fn of(values: impl Iterator<Item = f64>, from_zero: bool) -> Option<Self> {
        let all = values.fold(None, |range: Option<Self>, value| {
            let Self { low, high } = range.unwrap_or(Self { low: value, high: value });
            Some(Self { low: low.min(value), high: high.max(value) })
        })?;
        let low = if from_zero { all.low.min(0.0) } else { all.low };
        let room = match all.high - low {
            0.0 if all.high == 0.0 => 1.0,
            0.0 => all.high.abs() * 0.1,
            length => length * 0.04,
        };
        Some(Self { low: if from_zero { low } else { low - room }, high: all.high + room })
    }

    /// What covers all steps.
    pub(super) fn of_steps(steps: impl Iterator<Item = u64>) -> Option<Self> {
        let (low, high) = steps.fold(None, |range: Option<(u64, u64)>, step| {
            let (low, high) = range.unwrap_or((step, step));
            Some((low.min(step), high.max(step)))
        })?;
        // A single step stands in the middle.
        let high = if low == high { low + 1 } else { high };
        Some(Self { low: low as f64, high: high as f64 })
    }

    /// Where a value lies, from 0 to 1.
    fn place(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// Round numbers within it, at most `most` + 1 of them.
    fn ticks(self, most: f64) -> Vec<String> {
        let rough = (self.high - self.low) / most;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|times| times * power)
            .into_iter()
            .find(|step| *step >= rough * (1.0 - 1e-9));
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).max(-1.0) as usize + 1;
        let decimals = -(step.log10() + 1e-9).floor();
        let tick = |number: usize| {
            let value = (first + number as f64) * step;
            match decimals {
                5.0.. if value != 0.0 => format!("{value:.1e}"),
                // No zero is negative.
                _ => format!("{:.*}", decimals.clamp(0.0, 4.0) as usize, value + 0.0),
            }
        };
        (0..count).map(tick).collect()
    }
}

/// Draws curves in a picture of this size.
pub(super) fn draw(kind: Kind, steps: Range, drawn: &[Drawn], width: f64, height: f64) -> String {
    let values = || drawn.iter().flat_map(|curve| curve.points.iter().map(|point| point.y));
    let unit = kind.unit(values().fold(0.0, f64::max));
    let scaled = values().map(|value| value / unit.one);
    let Some(range) = Range::of(scaled, kind.begins_at_zero()) else { return String::new() };
    let picture = Picture { steps, range, unit, width, height };
    let mut svg = String::new();
    picture.axes(&mut svg);
    for curve in drawn {
        let dashed = if curve.is_dashed { " dashed" } else { "" };
        let faint = if curve.smooth.is_empty() { "" } else { " faint" };
        picture.path(&mut svg, curve.run, &format!("{dashed}{faint}"), &curve.points);
        if !curve.smooth.is_empty() {
            picture.path(&mut svg, curve.run, &format!("{dashed} smooth"), &curve.smooth);
        }
    }
    svg
}

struct Picture {
    steps: Range,
    range: Range,
    unit: Unit,
    width: f64,
    height: f64,
}

impl Picture {
    fn x(&self, step: f64) -> f64 {
        let [left, right, ..] = MARGIN;
        left + self.steps.place(step) * (self.width - left - right)
    }

    fn y(&self, value: f64) -> f64 {
        let [.., above, below] = MARGIN;
        self.height - below - self.range.place(value) * (self.height - above - below)
    }

    /// The grid, its numbers and the unit. Writing to a `String` never fails.
    fn axes(&self, svg: &mut String) {
        let [left, right, above, below] = MARGIN;
        let (end, bottom) = (self.width - right, self.height - below);
        for tick in self.range.ticks((self.height - above - below) / 40.0) {
            let y = self.y(tick.parse().unwrap_or_default());
            let _ = write!(svg, r#"<path class="grid" d="M{left} {y:.1}H{end}"/>"#);
            let _ = write!(svg, r#"<text class="left" x="{}" y="{:.1}">{tick}</text>"#, left - 6.0, y + 4.0);
        }
        for tick in
            self.steps.ticks((self.width - left - right) / 70.0).iter().filter(|tick| !tick.contains('.'))
        {
            let x = self.x(tick.parse().unwrap_or_default());
            let _ = write!(svg, r#"<path class="grid" d="M{x:.1} {bottom}v4"/>"#);
            let _ = write!(svg, r#"<text class="below" x="{x:.1}" y="{}">{tick}</text>"#, bottom + 17.0);
        }
        let _ = write!(svg, r#"<text class="unit" x="4" y="12">{}</text>"#, self.unit.name);
        let _ = write!(svg, r#"<text class="steps" x="{end}" y="{}">step</text>"#, self.height - 3.0);
    }

    /// Draws a curve; one of a single point is a dot.
    fn path(&self, svg: &mut String, run: usize, class: &str, points: &[Point]) {
        let hue = hue(run);
        let place = |point: &Point| (self.x(point.x as f64), self.y(point.y / self.unit.one));
        if let [point] = points {
            let (x, y) = place(point);
            let _ = write!(
                svg,
                r#"<circle class="dot{class}" style="--h:{hue}" r="{DOT}" cx="{x:.1}" cy="{y:.1}"/>"#
            );
            return;
        }
        let _ = write!(svg, r#"<path class="run{class}" style="--h:{hue}" d=""#);
        for (number, point) in points.iter().enumerate() {
            let (x, y) = place(point);
            let _ = write!(svg, "{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
        }
        svg.push_str("\"/>");
    }
}

/// The hue of a run: each turns the wheel on by the golden angle, so that all are far apart.
pub(super) fn hue(run: usize) -> u32 {
    (215.0 + 137.508 * run as f64) as u32 % 360
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64, most: f64) -> Vec<String> {
        Range { low, high }.ticks(most)
    }

    #[test]
    fn ticks_are_round_numbers_within_the_range() {
        assert_eq!(ticks(0.0, 1.04, 5.0), ["0.0", "0.5", "1.0"]);
        assert_eq!(ticks(1.9, 4.4, 5.0), ["2.0", "2.5", "3.0", "3.5", "4.0"]);
        assert_eq!(ticks(0.0, 800.0, 8.0), ["0", "100", "200", "300", "400", "500", "600", "700", "800"]);
        assert_eq!(ticks(-0.3, 0.3, 3.0), ["-0.2", "0.0", "0.2"]);
        assert_eq!(
            ticks(0.0, 6e-5, 3.0),
            ["0.00000", "2.0e-5", "4.0e-5", "6.0e-5"].map(|tick| tick.replace("0.00000", "0.0000"))
        );
    }

    #[test]
    fn a_flat_curve_has_room() {
        assert_eq!(Range::of([2.0, 2.0].into_iter(), false), Some(Range { low: 1.8, high: 2.2 }));
        assert_eq!(Range::of([0.0].into_iter(), true), Some(Range { low: 0.0, high: 1.0 }));
        assert_eq!(Range::of(std::iter::empty(), true), None);
        assert_eq!(Range::of_steps([7].into_iter()), Some(Range { low: 7.0, high: 8.0 }));
    }

    #[test]
    fn a_curve_goes_from_corner_to_corner() {
        let points = vec![Point { x: 0, y: 0.0 }, Point { x: 100, y: 0.5 }];
        let drawn = [Drawn { run: 0, is_dashed: true, points, smooth: Vec::new() }];
        let steps = Range::of_steps([0, 100].into_iter()).expect("steps");
        let svg = draw(Kind::Share, steps, &drawn, 470.0, 236.0);
        assert!(
            svg.contains(r#"<path class="run dashed" style="--h:215" d="M56.0 202.0L456.0 28.9"/>"#),
            "{svg}"
        );
        assert!(
            svg.contains(">%</text>") && svg.contains(">20</text>") && svg.contains(">100</text>"),
            "{svg}"
        );
    }
}
