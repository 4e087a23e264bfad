//! The type of an export's weights.

use burn::tensor::{bf16, f16};

/// The type of stored weights. Values are rounded to the nearest one of the type, ties to even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightDtype {
    /// As they are trained: 32 bits.
    #[default]
    F32,
    /// 16 bits, with the range of f32.
    Bf16,
    /// 16 bits, more exact than bf16, and at most 65504.
    F16,
}

impl WeightDtype {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Its name, its name in PyTorch, and how many bytes a value takes.
    fn facts(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::F32 => ("f32", "float32", 4),
            Self::Bf16 => ("bf16", "bfloat16", 2),
            Self::F16 => ("f16", "float16", 2),
        }
    }

    /// Its name, such as `bf16`. In safetensors files it is in capitals.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    pub(super) fn in_torch(self) -> &'static str {
        self.facts().1
    }

    /// How many bytes a value takes.
    pub(super) fn size(self) -> u64 {
        self.facts().2
    }

    /// The bytes of values, or the first value that is too large.
    pub(super) fn encode(self, values: &[f32]) -> Result<Vec<u8>, f32> {
        let narrow: fn(f32) -> ([u8; 2], bool) = match self {
            Self::F32 => return Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Self::Bf16 => |value| {
                let narrow = bf16::from_f32(value);
                (narrow.to_le_bytes(), narrow.is_infinite())
            },
            Self::F16 => |value| {
                let narrow = f16::from_f32(value);
                (narrow.to_le_bytes(), narrow.is_infinite())
            },
        };
        let mut bytes = Vec::with_capacity(2 * values.len());
        for &value in values {
            match narrow(value) {
                (_, true) if value.is_finite() => return Err(value),
                (narrow, _) => bytes.extend(narrow),
            }
        }
        Ok(bytes)
    }
}
