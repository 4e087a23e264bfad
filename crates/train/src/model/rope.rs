//! Rotary position embedding: takes positions, returns the [`Rotation`] of the heads there.
//!
//! Dimension `i` and dimension `i + head/2` form one plane, rotated by `position * theta^(-2i/head)` (Su et al., 2021,
//! arXiv:2104.09864, in the split-half order that most checkpoints use). Holds two tables, `[seq_len, head]`.

use std::f64::consts::TAU;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::config::{RopeKind, RopeScaling};
use crate::kernels::rotation::Rotation;

/// The tables of the rotation.
#[derive(Module, Debug)]
pub struct Rope {
    cos: Tensor<2>,
    sin: Tensor<2>,
    swap: Tensor<2>,
}

impl Rope {
    /// Creates tables for positions below `seq_len` and heads of `head` dimensions, an even number.
    pub fn new(
        seq_len: usize,
        head: usize,
        theta: f32,
        scaling: Option<&RopeScaling>,
        device: &Device,
    ) -> Self {
        let half = head / 2;
        let frequency = |i: usize| {
            let frequency = f64::from(theta).powf(-2.0 * i as f64 / head as f64);
            scaling.map_or(frequency, |scaling| scaled(frequency, scaling))
        };
        let frequencies: Vec<f64> = (0..half).map(frequency).collect();
        let angle = |position: usize, i: usize| position as f64 * frequencies[i % half];
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> = (0..seq_len)
                .flat_map(|position| (0..head).map(move |i| (position, i)))
                .map(|(position, i)| f(angle(position, i)) as f32)
                .collect();
            Tensor::from_data(TensorData::new(values, [seq_len, head]), device)
        };
        let mut swap = vec![0.0f32; head * head];
        for i in 0..half {
            swap[(i + half) * head + i] = -1.0;
            swap[i * head + i + half] = 1.0;
        }
        Self {
            cos: table(f64::cos),
            sin: table(f64::sin),
            swap: Tensor::from_data(TensorData::new(swap, [head, head]), device),
        }
    }

    /// The number of positions in the tables.
    #[expect(clippy::len_without_is_empty, reason = "tables of no position are of no use")]
    pub fn len(&self) -> usize {
        self.cos.dims()[0]
    }

    /// Returns the rotation of positions `from..from + length`.
    ///
    /// # Panics
    /// If they go past the end of the tables.
    pub fn at(&self, from: usize, length: usize) -> Rotation {
        let rows = |table: &Tensor<2>| table.clone().slice_dim(0, from..from + length).unsqueeze();
        Rotation { cos: rows(&self.cos), sin: rows(&self.sin), swap: self.swap.clone().unsqueeze() }
    }

    /// Returns the rotation of each row's own positions, `[batch, length]`, all below [`len`](Self::len).
    pub fn at_each(&self, positions: &Tensor<2, Int>) -> Rotation {
        let [batch, length] = positions.dims();
        let [_, head] = self.cos.dims();
        let positions = positions.clone().reshape([batch * length]);
        let rows =
            |table: &Tensor<2>| table.clone().select(0, positions.clone()).reshape([batch, 1, length, head]);
        Rotation { cos: rows(&self.cos), sin: rows(&self.sin), swap: self.swap.clone().unsqueeze() }
    }
}

/// A frequency, in radians a position, as `scaling` changes it.
fn scaled(frequency: f64, scaling: &RopeScaling) -> f64 {
    let stretched = frequency / f64::from(scaling.factor);
    match scaling.kind {
        RopeKind::Linear => stretched,
        RopeKind::Llama3 => {
            let (low, high) = (f64::from(scaling.low_freq_factor), f64::from(scaling.high_freq_factor));
            let waves = scaling.original_seq_len as f64 * frequency / TAU;
            let kept = ((waves - low) / (high - low)).clamp(0.0, 1.0);
            kept * frequency + (1.0 - kept) * stretched
        }
    }
}
