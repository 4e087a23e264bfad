//! A whole model and its gradients against the same model in burn's plain operations.
//!
//! The trainer computes norms, products, rotation, attention, SwiGLU and the loss by its own code, and writes their
//! gradients by hand. Here burn's autodiff says what the gradients are.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::{gelu, log_softmax, silu, softmax};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use millstream::Batch;
use millstream_train::Scope;
use millstream_train::config::{Activation, ModelConfig};
use millstream_train::gradients::gradients;
use millstream_train::model::{Block, Gpt, Norm, Rope};
use proptest::prelude::*;

use crate::numbers::numbers;
use crate::small::each;

const VOCAB: usize = 13;
const THETA: f64 = 10_000.0;

#[derive(Clone, Debug)]
struct Case {
    config: ModelConfig,
    rows: usize,
    length: usize,
    seed: u64,
}

impl Case {
    fn model(&self, device: &Device) -> Gpt {
        let model = Gpt::new(&self.config, VOCAB, self.length, self.seed, device);
        model.map(&mut Filled(self.seed))
    }

    fn batch(&self) -> Batch {
        let ids = numbers(self.seed + 7).take(self.rows * (self.length + 1));
        Batch::from_ids(ids.map(|number| (number % VOCAB as u64) as u32).collect(), self.length + 1)
    }

    /// Inputs and targets, `[rows, length]` each.
    fn ids(&self, device: &Device) -> [Tensor<2, Int>; 2] {
        let ids: Vec<i64> = self.batch().ids().iter().map(|&id| i64::from(id)).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [self.rows, self.length + 1]), device);
        [0..self.length, 1..self.length + 1].map(|places| ids.clone().slice_dim(1, places))
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (1usize..3, 1usize..4, 1usize..3, 2usize..5, 4usize..24, 1usize..20);
    let kind = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (shape, kind, 1usize..4, prop_oneof![1usize..20, 60usize..90], 0u64..1000).prop_map(
        |(
            (layers, groups, kv_heads, half, width, d_ff),
            (gated, tied, qkv_bias, qk_norm),
            rows,
            length,
            seed,
        )| {
            let config = ModelConfig {
                layers,
                d_model: width,
                heads: groups * kv_heads,
                kv_heads: Some(kv_heads),
                head_dim: Some(2 * half),
                d_ff,
                activation: if gated { Activation::Swiglu } else { Activation::Gelu },
                tied,
                qkv_bias,
                qk_norm,
                rope_theta: THETA as f32,
                ..ModelConfig::default()
            };
            Case { config, rows, length, seed }
        },
    )
}

/// Gives each parameter other numbers: matrices around 0, and vectors, most of which are gains, around 1.
struct Filled(u64);

impl ModuleMapper for Filled {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.0 += 1;
        param.map(|tensor| {
            let shape = tensor.dims();
            let middle = if D == 1 { 1.0 } else { 0.0 };
            let even = numbers(self.0).map(|number| number as f32 / 2f32.powi(31) - 0.5 + middle);
            let values: Vec<f32> = even.take(shape.iter().product()).collect();
            Tensor::from_data(TensorData::new(values, shape), &tensor.device()).require_grad()
        })
    }
}

/// Makes each parameter f64.
struct Wide;

impl ModuleMapper for Wide {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| Tensor::from_data(tensor.to_data(), (&tensor.device(), DType::F64)).require_grad())
    }
}

/// The losses of all targets, by burn's operations alone.
fn plain_losses(model: &Gpt, config: &ModelConfig, [ids, targets]: [Tensor<2, Int>; 2]) -> Tensor<2> {
    let ([batch, length], width) = (ids.dims(), config.d_model);
    let flat = ids.reshape([batch * length]);
    let mut x = model.embedding.val().select(0, flat).reshape([batch, length, width]);
    for block in &model.blocks {
        let read = plain_norm(&block.attention_norm, config, x.clone());
        let attention = &block.attention;
        let mut projected = plain_product(read, attention.qkv.val());
        if let Some(bias) = &attention.bias {
            projected = projected + bias.val().unsqueeze();
        }
        x = x + plain_product(plain_attention(projected, block, config), attention.out.val());
        let up = plain_product(plain_norm(&block.mlp_norm, config, x.clone()), block.mlp.up.val());
        let half = |at: usize| up.clone().slice_dim(2, at * config.d_ff..(at + 1) * config.d_ff);
        let inner = match config.activation == Activation::Swiglu {
            true => silu(half(0)) * half(1),
            false => gelu(up),
        };
        x = x + plain_product(inner, block.mlp.down.val());
    }
    let head = model.head.as_ref().unwrap_or(&model.embedding).val();
    let logits = plain_product(plain_norm(&model.norm, config, x), head.transpose());
    let chosen = log_softmax(logits, 2).gather(2, targets.unsqueeze_dim(2));
    chosen.neg().squeeze_dim(2)
}

fn plain_product(x: Tensor<3>, weights: Tensor<2>) -> Tensor<3> {
    x.matmul(weights.unsqueeze())
}

fn plain_norm<const D: usize>(norm: &Norm, config: &ModelConfig, x: Tensor<D>) -> Tensor<D> {
    let mean = x.clone().powi_scalar(2).mean_dim(D - 1);
    x / (mean + config.norm_epsilon).sqrt() * norm.gain.val().unsqueeze()
}

/// What the heads read, side by side: `[batch, length, heads * head]`.
fn plain_attention(projected: Tensor<3>, block: &Block, config: &ModelConfig) -> Tensor<3> {
    let [batch, length, _] = projected.dims();
    let (heads, kv_heads, head) = (config.heads, config.kv_heads(), config.head_dim());
    let part = |from: usize, heads: usize| {
        let part = projected.clone().slice_dim(2, from * head..(from + heads) * head);
        part.reshape([batch, length, heads, head])
    };
    let (mut query, mut key, value) =
        (part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads));
    if let (Some(of_query), Some(of_key)) = (&block.attention.query_norm, &block.attention.key_norm) {
        (query, key) = (plain_norm(of_query, config, query), plain_norm(of_key, config, key));
    }
    let [query, key, value] = [plain_rotation(query), plain_rotation(key), value].map(|x| x.swap_dims(1, 2));
    let repeated = |x: Tensor<4>| {
        let shape = [batch, kv_heads, heads / kv_heads, length, head];
        x.unsqueeze_dim::<5>(2).expand(shape).reshape([batch, heads, length, head])
    };
    let scores = query.matmul(repeated(key).swap_dims(2, 3)) / (head as f64).sqrt();
    let later = Tensor::<2, Bool>::tril_mask([length, length], 0, &scores.device());
    let weights = softmax(scores.mask_fill(later.unsqueeze(), f32::NEG_INFINITY), 3);
    weights.matmul(repeated(value)).swap_dims(1, 2).reshape([batch, length, heads * head])
}

/// Each pair of dimensions, one from either half, rotated by the place's position.
fn plain_rotation(x: Tensor<4>) -> Tensor<4> {
    let [_, length, _, head] = x.dims();
    let half = head / 2;
    let table = |f: fn(f64) -> f64| {
        let angle = |at: usize| (at / half) as f64 * THETA.powf(-2.0 * (at % half) as f64 / head as f64);
        let values: Vec<f32> = (0..length * half).map(|at| f(angle(at)) as f32).collect();
        Tensor::<4>::from_data(TensorData::new(values, [1, length, 1, half]), &x.device())
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin));
    let (first, second) = (x.clone().slice_dim(3, 0..half), x.clone().slice_dim(3, half..head));
    let turned = first.clone() * sin.clone() + second.clone() * cos.clone();
    Tensor::cat(vec![first * cos - second * sin, turned], 3)
}

/// The sum of the losses, and the gradient of every parameter, of the trainer's own code.
fn found(model: &Gpt, case: &Case, device: &Device, parts: usize) -> (f64, Vec<Vec<f32>>) {
    let found = gradients(model, &case.batch(), Scope::Row, device, parts).expect("gradients");
    (found.nats, each(model, &found.params))
}

fn close(found: &[Vec<f32>], expected: &[Vec<f32>], tolerance: f32) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        prop_assert_eq!(found.len(), expected.len());
        let largest = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
        for (at, (a, b)) in found.iter().zip(expected).enumerate() {
            let close = (a - b).abs() <= tolerance * (largest + 1e-2);
            prop_assert!(close, "parameter {} at {}: {} and {}", number, at, a, b);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn gradients_are_those_of_burns_operations(case in cases(), parts in 1usize..4) {
        let device = Device::flex().autodiff();
        let model = case.model(&device);
        let losses = plain_losses(&model, &case.config, case.ids(&device)).sum();
        let nats = f64::from(losses.clone().into_scalar::<f32>());
        let expected = each(&model, &GradientsParams::from_grads(losses.backward(), &model));

        let (sum, gradients) = found(&model, &case, &device, parts);
        prop_assert!((sum - nats).abs() <= 1e-5 * nats.abs(), "{} and {}", sum, nats);
        close(&gradients, &expected, 5e-4)?;
    }

    /// Only f32 has code of its own on the CPU. In f64, the same parts take the operations that all devices have.
    #[test]
    fn other_devices_operations_give_the_same(case in cases()) {
        let device = Device::flex().autodiff();
        let narrow = case.model(&device);
        let wide = narrow.clone().map(&mut Wide);
        let found = of_a_block(&wide, &case, DType::F64);
        close(&found, &of_a_block(&narrow, &case, DType::F32), 1e-4)?;
    }
}

/// What the two parts of the first block make of vectors, the gradients of these, and those of all parameters.
fn of_a_block(model: &Gpt, case: &Case, dtype: DType) -> Vec<Vec<f32>> {
    let device = Device::flex().autodiff();
    let shape = [case.rows, case.length, case.config.d_model];
    let vectors = |seed: u64| {
        let even = numbers(seed).map(|number| number as f64 / 2f64.powi(30) - 1.0);
        let values: Vec<f64> = even.take(shape.iter().product()).collect();
        Tensor::<3>::from_data(TensorData::new(values, shape), (&device, dtype))
    };
    let [x, slopes] = [vectors(case.seed).require_grad(), vectors(case.seed + 1)];
    let rope = Rope::new(case.length, case.config.head_dim(), THETA as f32, None, &device);
    let block = &model.blocks[0];
    let attended = block.attention.forward(x.clone(), &rope.at(0, case.length), None);
    let fed = block.mlp.forward(x.clone());
    let gradients = ((attended.clone() + fed.clone()) * slopes).sum().backward();
    let of_x = x.grad(&gradients).expect("a gradient");
    let values = |x: Tensor<3>| x.cast(DType::F32).into_data().try_to_vec::<f32>().expect("f32");
    let mut all = vec![values(attended.inner()), values(fed.inner()), values(of_x)];
    all.extend(each(block, &GradientsParams::from_grads(gradients, block)));
    all
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let config = ModelConfig {
        layers: 2,
        d_model: 96,
        heads: 4,
        kv_heads: Some(2),
        d_ff: 200,
        ..ModelConfig::default()
    };
    let usual = Case { config, rows: 6, length: 100, seed: 3 };
    // A single place, whose products are those of a vector, with matrices large enough to be worth several threads.
    let config = ModelConfig { layers: 1, d_model: 512, heads: 4, d_ff: 512, ..ModelConfig::default() };
    let single = Case { config, rows: 1, length: 1, seed: 4 };
    let device = Device::flex().autodiff();
    for (case, parts) in [(&usual, 1), (&usual, 2), (&single, 1)] {
        let model = case.model(&device);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| found(&model, case, &device, parts))
        };
        let alone = on(1);
        for threads in [2, 3, 5] {
            assert!(on(threads) == alone, "{threads} threads, {parts} parts, {case:?}");
        }
    }
}
