//! Attention in blocks against attention as it is defined: all scores at once.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use millstream::Batch;
use millstream_train::Scope;
use millstream_train::attention::{attend, self_attend};
use millstream_train::config::ModelConfig;
use millstream_train::gradients::gradients;
use millstream_train::model::Gpt;
use proptest::prelude::*;

use crate::numbers::numbers;
use crate::small;

/// The shape of one case, and the first key that each query of each row sees.
#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    kv_heads: usize,
    groups: usize,
    length: usize,
    /// How many keys come before the first query.
    before: usize,
    head: usize,
    block: usize,
    starts: Option<Vec<usize>>,
    /// What the queries are multiplied by.
    scale: f32,
}

impl Case {
    fn keys(&self) -> usize {
        self.before + self.length
    }

    /// Queries, keys, values and the gradient of the output.
    fn tensors(&self, device: &Device) -> [Tensor<4>; 4] {
        let heads = self.kv_heads * self.groups;
        let queries = [self.batch, heads, self.length, self.head];
        let keys = [self.batch, self.kv_heads, self.keys(), self.head];
        [queries, keys, keys, queries].map({
            let mut seed = 0;
            move |shape| {
                seed += 1;
                random(shape, seed, device)
            }
        })
    }

    fn starts(&self, device: &Device) -> Option<Tensor<2, Int>> {
        let starts: Vec<i32> = self.starts.as_ref()?.iter().map(|&start| start as i32).collect();
        Some(Tensor::from_data(TensorData::new(starts, [self.batch, self.length]), device))
    }

    /// The same with rows of another length, and no keys before them.
    fn with_length(self, length: usize) -> Self {
        let starts = self.starts.as_ref().map(|_| documents(self.batch, length, 0, self.block as u64));
        Self { length, before: 0, starts, ..self }
    }

    fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let start = self.starts.as_ref().map_or(0, |starts| starts[row * self.length + query]);
        start <= key && key <= query + self.before
    }
}

/// Even numbers between -2 and 2.
fn random(shape: [usize; 4], seed: u64, device: &Device) -> Tensor<4> {
    let even = numbers(seed).map(|number| number as f32 / 2f32.powi(29) - 2.0);
    let values: Vec<f32> = even.take(shape.iter().product()).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().try_to_vec::<f32>().expect("f32")
}

/// Attention as it is defined, in burn's operations: with all scores in one tensor.
fn materialised(case: &Case, query: Tensor<4>, key: Tensor<4>, value: Tensor<4>) -> Tensor<4> {
    let (heads, keys) = (case.kv_heads * case.groups, case.keys());
    let repeated = |x: Tensor<4>| {
        let [batch, kv_heads, keys, head] = x.dims();
        let shape = [batch, kv_heads, case.groups, keys, head];
        x.unsqueeze_dim::<5>(2).expand(shape).reshape([batch, heads, keys, head])
    };
    let unseen: Vec<bool> = (0..case.batch * case.length * keys)
        .map(|i| !case.sees(i / keys / case.length, i / keys % case.length, i % keys))
        .collect();
    let shape = [case.batch, 1, case.length, keys];
    let unseen = Tensor::<4, Bool>::from_data(TensorData::new(unseen, shape), &query.device());
    let scores = query.matmul(repeated(key).transpose()).div_scalar((case.head as f64).sqrt());
    let unseen = unseen.expand([case.batch, heads, case.length, keys]);
    softmax(scores.mask_fill(unseen, f32::NEG_INFINITY), 3).matmul(repeated(value))
}

/// The first key that each query sees, for rows of documents.
fn documents(batch: usize, length: usize, before: usize, seed: u64) -> Vec<usize> {
    let mut starts = Vec::new();
    for place in 0..batch * length {
        let (row, query) = (place / length, place % length);
        let begins = (place as u64 * 7 + seed * 13 + row as u64).is_multiple_of(5);
        let goes_on = if query == 0 { 0 } else { starts[place - 1] };
        starts.push(if begins { before + query } else { goes_on });
    }
    starts
}

fn cases() -> impl Strategy<Value = Case> {
    (1usize..3, 1usize..3, 1usize..4, 1usize..40, 0usize..9, 1usize..5, 1usize..48, any::<bool>(), 0u64..999)
        .prop_map(|(batch, kv_heads, groups, length, before, half, block, of_documents, seed)| {
            let case = Case {
                batch,
                kv_heads,
                groups,
                length,
                before,
                head: 2 * half,
                block,
                starts: None,
                scale: 1.0,
            };
            let starts = of_documents.then(|| documents(batch, length, before, seed));
            Case { starts, ..case }
        })
}

fn close(found: &[f32], expected: &[f32], tolerance: f32) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        prop_assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "at {}: {} and {}", at, a, b);
    }
    Ok(())
}

/// The output of `f` and the gradients of its inputs, given that of the output.
fn with_gradients(
    case: &Case,
    f: impl FnOnce(Tensor<4>, Tensor<4>, Tensor<4>) -> Tensor<4>,
) -> [Vec<f32>; 4] {
    let device = Device::flex().autodiff();
    let [query, key, value, gradient] = case.tensors(&device);
    let [query, key, value] = [query.mul_scalar(case.scale), key, value].map(|x| x.detach().require_grad());
    let output = f(query.clone(), key.clone(), value.clone());
    let gradients = (output.clone() * gradient).sum().backward();
    let of = |x: Tensor<4>| values(x.grad(&gradients).expect("a gradient"));
    [values(output.inner()), of(query), of(key), of(value)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn blocks_give_what_the_definition_gives(case in cases()) {
        let device = Device::flex();
        let [query, key, value, _] = case.tensors(&device);
        let whole = with_gradients(&case, |q, k, v| materialised(&case, q, k, v));
        let alone = attend(query, key, value, case.starts(&device), case.block);
        close(&values(alone), &whole[0], 1e-5)?;

        let trained = case.starts(&Device::flex().autodiff());
        let found = with_gradients(&case, |q, k, v| attend(q, k, v, trained, case.block));
        for (found, whole) in found.iter().zip(&whole) {
            close(found, whole, 1e-5)?;
        }
    }
}

/// The heads of queries, keys and values in one tensor, in the type `dtype`.
fn in_one(
    [query, key, value]: [Tensor<4>; 3],
    kv_heads: usize,
    starts: Option<Tensor<2, Int>>,
    dtype: DType,
) -> Tensor<4> {
    let heads = Tensor::cat(vec![query, key, value], 1).cast(dtype);
    self_attend(heads, kv_heads, starts).cast(DType::F32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In f32 by the CPU's own code, and in f64 by the operations that all devices have.
    #[test]
    fn heads_in_one_tensor_give_what_the_definition_gives(case in cases(), length in prop_oneof![1usize..40, 100usize..200]) {
        let case = case.with_length(length);
        let device = Device::flex();
        let [query, key, value, _] = case.tensors(&device);
        let whole = with_gradients(&case, |q, k, v| materialised(&case, q, k, v));
        for dtype in [DType::F32, DType::F64] {
            let alone = [query.clone(), key.clone(), value.clone()];
            let alone = in_one(alone, case.kv_heads, case.starts(&device), dtype);
            close(&values(alone), &whole[0], 2e-5)?;
            let starts = case.starts(&Device::flex().autodiff());
            let found = with_gradients(&case, |q, k, v| in_one([q, k, v], case.kv_heads, starts, dtype));
            for (found, whole) in found.iter().zip(&whole) {
                close(found, whole, 2e-5)?;
            }
        }
    }
}

#[test]
fn a_document_may_begin_before_its_row() {
    let device = Device::flex();
    let [query, key, value] = [1, 2, 3].map(|seed| random([2, 3, 5, 4], seed, &device));
    let starts = |first: i32| {
        let starts: Vec<i32> = [first, first, 2, 2, 2].repeat(2);
        Some(Tensor::from_data(TensorData::new(starts, [2, 5]), &device))
    };
    for dtype in [DType::F32, DType::F64] {
        let of = |first| values(in_one([query.clone(), key.clone(), value.clone()], 3, starts(first), dtype));
        assert_eq!(of(-3), of(0));
    }
}

#[test]
fn scores_beyond_what_exp_can_take_give_finite_gradients() {
    for scale in [1e3, 1e30, -1e30] {
        for (starts, block) in [(None, 4), (Some((0..12).map(|place| place / 5 * 5).collect()), 5)] {
            let case = Case {
                batch: 1,
                kv_heads: 1,
                groups: 2,
                length: 12,
                before: 0,
                head: 8,
                block,
                starts,
                scale,
            };
            let starts = case.starts(&Device::flex().autodiff());
            let found = with_gradients(&case, |q, k, v| attend(q, k, v, starts, block));
            let whole = with_gradients(&case, |q, k, v| materialised(&case, q, k, v));
            let starts = case.starts(&Device::flex().autodiff());
            let on_cpu = with_gradients(&case, |q, k, v| in_one([q, k, v], 1, starts, DType::F32));
            for found in [found, on_cpu] {
                assert!(found.iter().flatten().all(|value| value.is_finite()), "{scale}");
                // They round large scores at other places.
                close(&found[0], &whole[0], 1e-3).expect("the output");
                close(&found[3], &whole[3], 1e-3).expect("the values' gradient");
            }
        }
    }
}

#[test]
fn blocks_follow_another_strategy_of_autodiff_too() {
    let case = Case {
        batch: 1,
        kv_heads: 2,
        groups: 1,
        length: 9,
        before: 0,
        head: 4,
        block: 4,
        starts: None,
        scale: 1.0,
    };
    let expected = with_gradients(&case, |q, k, v| attend(q, k, v, None, 4));
    let device = Device::flex().autodiff().gradient_checkpointing();
    let [query, key, value, gradient] = case.tensors(&device);
    let query = query.require_grad();
    let output = attend(query.clone(), key, value, None, 4);
    let gradients = (output * gradient).sum().backward();
    assert_eq!(values(query.grad(&gradients).expect("a gradient")), expected[1]);
}

/// What names the length in the process that [`training_never_holds_all_scores`] starts.
const LENGTH: &str = "MILLSTREAM_TEST_LENGTH";

/// The scores of this length would take 256 MiB, in each of several tensors.
#[test]
#[cfg(target_os = "linux")]
fn training_never_holds_all_scores() {
    if let Ok(length) = std::env::var(LENGTH) {
        train_one_row(length.parse().expect("a length"));
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let peak = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the peak");
        println!("\n{peak}");
        return;
    }
    let peak = |length: usize| -> usize {
        let output = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "attention::training_never_holds_all_scores", "--nocapture"])
            .env(LENGTH, length.to_string())
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap_or_else(|| panic!("{text}")).trim().trim_end_matches(" kB");
        kib.parse().expect("a number")
    };
    let (short, long) = (peak(64), peak(4096));
    assert!(long < short + 64 * 1024, "{short} KiB at 64, {long} KiB at 4096");
}

/// One forward and backward pass over one row of two documents.
fn train_one_row(length: usize) {
    let device = Device::flex().autodiff();
    let config = ModelConfig { layers: 1, heads: 4, d_ff: 16, ..small::shape() };
    let model = Gpt::new(&config, 11, length, 1, &device);
    let ids = (0..=length as u32).map(|id| id % 11).collect();
    let batch = Batch::from_ids(ids, length + 1);
    for scope in [Scope::Row, Scope::Document] {
        gradients(&model, &batch, scope, &device, 1).expect("gradients");
    }
}
