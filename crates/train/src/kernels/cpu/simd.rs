//! Arithmetic that the compiler turns into vectors.
//!
//! A sum has one partial sum for each lane of the widest vectors, so it is the same for narrower ones.

/// The numbers in the widest vectors: 512 bits.
const LANES: usize = 16;

/// e to the power of `x`, to within 2 units in the last place; 0 below the smallest normal number.
///
/// 2 to the power of the nearest whole number, times a polynomial for the rest; the coefficients are those of Cephes'
/// `expf`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it rounds a number to a whole one, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    const SMALLEST: f32 = -87.336_54;
    const LARGEST: f32 = 88.376_26;
    let bounded = if x < SMALLEST { SMALLEST } else { x };
    let bounded = if bounded > LARGEST { LARGEST } else { bounded };
    let shifted = bounded * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = bounded - whole * LN_2.0 - whole * LN_2.1;
    let mut series = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        series = series * rest + coefficient;
    }
    let series = series * rest * rest + rest + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < SMALLEST { 0.0 } else { series * power }
}

/// The logistic function.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The sum of `term` over the numbers of `N` rows of one length.
#[inline(always)]
pub(super) fn sum<const N: usize>(rows: [&[f32]; N], term: impl Fn([f32; N]) -> f32) -> f32 {
    let len = rows[0].len();
    let whole = len - len % LANES;
    let mut lanes = [0.0; LANES];
    for from in (0..whole).step_by(LANES) {
        let mut vectors = [[0.0; LANES]; N];
        for (vector, row) in vectors.iter_mut().zip(rows) {
            vector.copy_from_slice(&row[from..from + LANES]);
        }
        for lane in 0..LANES {
            let mut numbers = [0.0; N];
            for (number, vector) in numbers.iter_mut().zip(&vectors) {
                *number = vector[lane];
            }
            lanes[lane] += term(numbers);
        }
    }
    for at in whole..len {
        let mut numbers = [0.0; N];
        for (number, row) in numbers.iter_mut().zip(rows) {
            *number = row[at];
        }
        lanes[at - whole] += term(numbers);
    }
    total(lanes)
}

/// Replaces each number of `row` by `f` of it, and returns their sum.
#[inline(always)]
pub(super) fn replace(row: &mut [f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (vectors, rest) = row.as_chunks_mut::<LANES>();
    for vector in vectors {
        for (number, lane) in vector.iter_mut().zip(&mut lanes) {
            *number = f(*number);
            *lane += *number;
        }
    }
    // The remainder is a vector too, so that a short row is not computed number by number.
    let mut vector = [0.0; LANES];
    vector[..rest.len()].copy_from_slice(rest);
    for number in &mut vector {
        *number = f(*number);
    }
    rest.copy_from_slice(&vector[..rest.len()]);
    rest.iter().zip(&mut lanes).for_each(|(number, lane)| *lane += number);
    total(lanes)
}

/// Replaces each pair of numbers by `f` of the pair and of a third.
#[inline(always)]
pub(super) fn replace_pairs(a: &mut [f32], b: &mut [f32], c: &[f32], f: impl Fn([f32; 2], f32) -> [f32; 2]) {
    let ((a, a_rest), (b, b_rest), (c, c_rest)) = (a.as_chunks_mut(), b.as_chunks_mut(), c.as_chunks());
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        replace_vectors(a, b, c, &f);
    }
    for ((a, b), c) in a_rest.iter_mut().zip(b_rest).zip(c_rest) {
        [*a, *b] = f([*a, *b], *c);
    }
}

#[inline(always)]
fn replace_vectors(
    a: &mut [f32; LANES],
    b: &mut [f32; LANES],
    c: &[f32; LANES],
    f: impl Fn([f32; 2], f32) -> [f32; 2],
) {
    // Copies cannot overlap, which the compiler does not see of slices.
    let (mut firsts, mut seconds, thirds) = (*a, *b, *c);
    for lane in 0..LANES {
        [firsts[lane], seconds[lane]] = f([firsts[lane], seconds[lane]], thirds[lane]);
    }
    (*a, *b) = (firsts, seconds);
}

/// The largest number of a row; minus infinity if it is empty.
#[inline(always)]
pub(super) fn max(row: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (vectors, rest) = row.as_chunks::<LANES>();
    for vector in vectors {
        for (lane, number) in lanes.iter_mut().zip(vector) {
            *lane = larger(*lane, *number);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger)
}

#[inline(always)]
fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exact_to_two_units_and_ends_where_numbers_do() {
        for step in -87_000..88_000 {
            let x = step as f32 * 1e-3;
            let (found, wanted) = (exp(x), f64::from(x).exp());
            let unit = f64::from(f32::EPSILON) * wanted;
            assert!((f64::from(found) - wanted).abs() <= 2.0 * unit, "exp({x}) = {found}, not {wanted}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert!(exp(f32::INFINITY) > 2e38);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_and_maxima_take_every_number_once() {
        for len in 0..70_u16 {
            let numbers: Vec<f32> = (0..len).map(|at| f32::from(at * 37 % 71) - 30.0).collect();
            let wanted: f32 = numbers.iter().sum();
            assert_eq!(sum([&numbers], |[x]| x), wanted);
            assert_eq!(max(&numbers), numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let mut doubled = numbers.clone();
            assert_eq!(replace(&mut doubled, |x| 2.0 * x), 2.0 * wanted);
            assert!(doubled.iter().zip(&numbers).all(|(double, number)| *double == 2.0 * number));
        }
        assert!(sum([&[1.0, f32::NAN]], |[x]| x).is_nan());
    }
}
