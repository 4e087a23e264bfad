//! Numbers with their units, on axes and in tables.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something with this unit, which may be empty.
    Plain(&'static str),
    /// A share, from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// A rate in this unit per second.
    Rate(&'static str),
}

/// A unit with its prefix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    /// The number that is one of it.
    pub(super) one: f64,
    pub(super) name: String,
}

impl Kind {
    /// The unit that suits numbers up to this one.
    pub(super) fn unit(self, most: f64) -> Unit {
        match self {
            Self::Plain(name) => Unit { one: 1.0, name: name.to_owned() },
            Self::Share => Unit { one: 0.01, name: "%".to_owned() },
            Self::Bytes => {
                let (one, prefix) = scaled(most, 1024.0, &["", "Ki", "Mi", "Gi", "Ti"]);
                Unit { one, name: format!("{prefix}B") }
            }
            Self::Rate(name) => {
                let (one, prefix) = scaled(most, 1000.0, &["", "k", "M", "G", "T", "P"]);
                // A word stands by itself, and a symbol takes the prefix.
                let gap = if prefix.is_empty() || name.starts_with(char::is_uppercase) { "" } else { " " };
                Unit { one, name: format!("{prefix}{gap}{name}") }
            }
        }
    }

    /// Whether an axis begins at 0.
    pub(super) fn begins_at_zero(self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// A number with its unit.
    pub(super) fn shown(self, number: f64) -> String {
        if self == Self::Share {
            return format!("{:.2}%", number * 100.0);
        }
        let Unit { one, name } = self.unit(number.abs());
        let gap = if name.is_empty() { "" } else { " " };
        format!("{}{gap}{name}", short(number / one))
    }
}

/// The largest power of `base` that is at most `most`, and its prefix.
fn scaled(most: f64, base: f64, prefixes: &[&'static str]) -> (f64, &'static str) {
    let (mut one, mut at) = (1.0, 0);
    while at + 1 < prefixes.len() && most >= one * base {
        (one, at) = (one * base, at + 1);
    }
    (one, prefixes[at])
}

/// A number with four digits; a whole number of up to four digits has no decimals.
pub(super) fn short(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e4 {
        return format!("{number:.0}");
    }
    let digits = number.abs().log10().floor() as i32;
    match digits {
        ..-4 | 15.. => format!("{number:.2e}"),
        _ => format!("{number:.*}", usize::try_from(3 - digits).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_suits_them() {
        assert_eq!(Kind::Bytes.shown(312.5 * 1024.0 * 1024.0), "312.5 MiB");
        assert_eq!(Kind::Bytes.shown(12.0), "12 B");
        assert_eq!(Kind::Rate("tokens/s").shown(40_546.0), "40.55 k tokens/s");
        assert_eq!(Kind::Rate("FLOP/s").shown(2.5e12), "2.500 TFLOP/s");
        assert_eq!(Kind::Share.shown(0.0162), "1.62%");
        assert_eq!(Kind::Plain("").shown(1.625), "1.625");
        assert_eq!(Kind::Plain("nats").shown(6e-6), "6.00e-6 nats");
        assert_eq!([short(0.0), short(123_456.0), short(-0.5)], ["0", "123456", "-0.5000"]);
    }
}
