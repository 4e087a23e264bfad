//! Three ways to look up vectors, with their gradients, on the device that is named: burn's embedding, a gather, and a
//! product with a matrix of ones and zeros.
//!
//!     cargo bench -- embedding flex
//!     CUBECL_WGPU_DEFAULT_DEVICE=Cpu cargo bench --features wgpu -- embedding wgpu

use std::time::Instant;

use burn::tensor::{Device, Int, Tensor, module};
use millstream_train::config::TrainConfig;
use millstream_train::device;

use crate::common::median;

/// Ids, vectors, and their width.
const IDS: usize = 2048;
const VOCAB: usize = 4096;
const WIDTH: usize = 256;

/// How often each way is timed, in turns.
const TURNS: usize = 5;

type Way = (&'static str, fn(Tensor<2>, Tensor<2, Int>) -> Tensor<2>);

const WAYS: [Way; 3] = [("embedding", embedding), ("gather", gather), ("product", product)];

fn embedding(weights: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<2> {
    module::embedding(weights, ids).reshape([IDS, WIDTH])
}

fn gather(weights: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<2> {
    weights.gather(0, ids.reshape([IDS, 1]).expand([IDS, WIDTH]))
}

fn product(weights: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<2> {
    let places = Tensor::<1, Int>::arange(0..VOCAB as i64, &weights.device()).reshape([1, VOCAB]);
    let ones = ids.reshape([IDS, 1]).expand([IDS, VOCAB]).equal(places.expand([IDS, VOCAB]));
    ones.float().matmul(weights)
}

/// How many milliseconds a way takes, there and back.
fn time(way: Way, device: &Device) -> f64 {
    let ids: Vec<i32> = (0..IDS as i32).map(|nth| nth * nth % 977).collect();
    let ids = Tensor::<1, Int>::from_data(ids.as_slice(), device).reshape([1, IDS]);
    let weights = Tensor::<2>::zeros([VOCAB, WIDTH], device).require_grad();
    let began = Instant::now();
    let gradients = (way.1)(weights.clone(), ids).sum().backward();
    // Reading waits for the device.
    let gradient = weights.grad(&gradients).expect("a gradient").sum();
    assert!((gradient.into_scalar::<f32>() - (IDS * WIDTH) as f32).abs() < 1.0, "{}", way.0);
    began.elapsed().as_secs_f64() * 1e3
}

pub(crate) fn run(name: &str, is_trial: bool) {
    let turns = if is_trial { 1 } else { TURNS };
    let config = TrainConfig { device: name.to_owned(), ..TrainConfig::default() };
    let device = device::open(&config).expect("a device").autodiff();
    println!("{name}: {IDS} ids of {VOCAB}, vectors of {WIDTH}; the median of {turns}, in ms");
    // Kernels are compiled at their first use.
    for way in WAYS {
        time(way, &device);
    }
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..turns {
        for (times, way) in times.iter_mut().zip(WAYS) {
            times.push(time(way, &device));
        }
    }
    for (times, (name, _)) in times.into_iter().zip(WAYS) {
        println!("{name:>9}  {:8.2}", median(times));
    }
}
