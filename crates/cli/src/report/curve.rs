//! Curves of any length in bounded memory, which keep their extremes.

/// The most spans of a curve.
const MOST: usize = 512;

/// The fewest spans of a curve that is smoothed. Fewer points can be seen one by one.
const SMOOTHED: usize = 24;

/// The weight of other spans falls to a third over this part of a curve. It falls in both directions, so that the mean does
/// not lag behind the curve.
const REACH: f64 = 1.0 / 60.0;

/// A value at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: u64,
    pub(super) y: f64,
}

/// Consecutive values: the lowest, the highest and the mean.
#[derive(Clone, Copy, Debug)]
struct Span {
    low: Point,
    high: Point,
    sum: f64,
    count: u64,
    /// The first and the last step.
    ends: (u64, u64),
}

impl Span {
    fn of(point: Point) -> Self {
        Self { low: point, high: point, sum: point.y, count: 1, ends: (point.x, point.x) }
    }

    fn with(self, next: Self) -> Self {
        Self {
            low: if next.low.y < self.low.y { next.low } else { self.low },
            high: if next.high.y > self.high.y { next.high } else { self.high },
            sum: self.sum + next.sum,
            count: self.count + next.count,
            ends: (self.ends.0, next.ends.1),
        }
    }

    fn middle(&self) -> u64 {
        self.ends.0 + (self.ends.1 - self.ends.0) / 2
    }
}

/// A curve. Values are added in the order of their steps.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    spans: Vec<Span>,
    /// The number of values of a full span.
    full: u64,
    first: Option<Point>,
    last: Option<Point>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { spans: Vec::new(), full: 1, first: None, last: None }
    }
}

impl Curve {
    /// Adds a value, if it is a number.
    pub(super) fn push(&mut self, x: u64, y: Option<f64>) {
        let Some(y) = y.filter(|y| y.is_finite()) else { return };
        let point = Point { x, y };
        self.first.get_or_insert(point);
        self.last = Some(point);
        match self.spans.last_mut() {
            Some(span) if span.count < self.full => *span = span.with(Span::of(point)),
            _ => self.spans.push(Span::of(point)),
        }
        self.shrink(MOST);
    }

    /// Joins spans until there are at most `most`.
    pub(super) fn shrink(&mut self, most: usize) {
        while self.spans.len() > most.max(1) {
            let pairs = self.spans.chunks(2);
            self.spans =
                pairs.map(|pair| pair.iter().copied().reduce(Span::with).expect("one or two")).collect();
            self.full *= 2;
        }
    }

    /// The number of its spans.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The points to draw: all values of a short curve; of a long one the first, the last, and the extremes of each span.
    pub(super) fn points(&self) -> Vec<Point> {
        let spans = self.spans.iter().flat_map(|span| {
            let mut both = [span.low, span.high];
            both.sort_by_key(|point| point.x);
            both
        });
        let mut points: Vec<Point> = self.first.into_iter().chain(spans).chain(self.last).collect();
        points.dedup();
        points
    }

    /// The curve without its noise: a mean in which spans weigh less the further they are. Empty for a short curve.
    pub(super) fn smooth(&self) -> Vec<Point> {
        if self.spans.len() < SMOOTHED {
            return Vec::new();
        }
        let keep = (-1.0 / (REACH * self.spans.len() as f64)).exp();
        let before = sums(self.spans.iter(), keep);
        let mut after = sums(self.spans.iter().rev(), keep);
        after.reverse();
        // Each span is in both sums.
        let both = self.spans.iter().zip(before.iter().zip(&after));
        both.map(|(span, (before, after))| {
            let sum = before.sum + after.sum - span.sum;
            Point { x: span.middle(), y: sum / (before.count + after.count - span.count as f64) }
        })
        .collect()
    }
}

/// A sum of values, each with a weight, and the sum of the weights.
#[derive(Clone, Copy, Debug, Default)]
struct Weighted {
    sum: f64,
    count: f64,
}

/// The sums up to each span, in which earlier spans weigh less.
fn sums<'a>(spans: impl Iterator<Item = &'a Span>, keep: f64) -> Vec<Weighted> {
    let add = |total: &mut Weighted, span: &Span| {
        *total = Weighted { sum: total.sum * keep + span.sum, count: total.count * keep + span.count as f64 };
        Some(*total)
    };
    spans.scan(Weighted::default(), add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(len: u64, y: impl Fn(u64) -> f64) -> Curve {
        let mut curve = Curve::default();
        (0..len).for_each(|x| curve.push(x, Some(y(x))));
        curve
    }

    #[test]
    fn the_mean_of_a_line_lies_on_it() {
        let smooth = curve(10_000, |x| x as f64 + if x % 2 == 0 { 50.0 } else { -50.0 }).smooth();
        for point in &smooth[smooth.len() / 4..smooth.len() * 3 / 4] {
            assert!((point.y - point.x as f64).abs() < 20.0, "{point:?}");
        }
    }
}
