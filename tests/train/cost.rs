//! What training costs, beside the parameters that models have and the products of those shapes. A bench counts the
//! operations that a step executes: `benches/trainer/operations.py`.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use millstream_train::RunConfig;
use millstream_train::config::{Activation, ModelConfig, OptimizerKind, Precision};
use millstream_train::cost::{Flops, Memory, Parameters};
use millstream_train::model::Gpt;
use proptest::prelude::*;

/// The shapes of all parameters with a number of dimensions, as the model has them.
fn shapes<const WANTED: usize>(model: &Gpt) -> Vec<Vec<usize>> {
    struct Shapes<const WANTED: usize>(Vec<Vec<usize>>);
    impl<const WANTED: usize> ModuleVisitor for Shapes<WANTED> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if D == WANTED {
                self.0.push(param.val().dims().to_vec());
            }
        }
    }
    let mut shapes = Shapes::<WANTED>(Vec::new());
    model.visit(&mut shapes);
    shapes.0
}

fn model(config: &ModelConfig, vocab: usize) -> Gpt {
    Gpt::new(config, vocab, 8, 7, &Device::flex())
}

fn shape() -> impl Strategy<Value = (ModelConfig, usize)> {
    let sizes = (1..4_usize, 1..4_usize, 1..4_usize, 1..5_usize, 1..30_usize, 1..40_usize);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, flags, 2..100_usize).prop_map(
        |((layers, kv_heads, group, half, d_ff, width), (gelu, tied, bias, norm), vocab)| {
            let model = ModelConfig {
                layers,
                d_model: width,
                heads: kv_heads * group,
                kv_heads: Some(kv_heads),
                head_dim: Some(2 * half),
                d_ff,
                activation: if gelu { Activation::Gelu } else { Activation::Swiglu },
                tied,
                qkv_bias: bias,
                qk_norm: norm,
                ..ModelConfig::default()
            };
            (model, vocab)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_parameter_of_a_model_is_counted((config, vocab) in shape()) {
        let (model, counted) = (model(&config, vocab), Parameters::new(&config, vocab));
        let sum = |shapes: Vec<Vec<usize>>| shapes.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>();
        let (matrices, vectors) = (sum(shapes::<2>(&model)), sum(shapes::<1>(&model)));
        prop_assert_eq!(counted.total(), (matrices + vectors) as f64);
        prop_assert_eq!(counted.vectors, vectors as f64);
        prop_assert_eq!(counted.head, model.head.as_ref().unwrap_or(&model.embedding).val().shape().num_elements() as f64);
        // An embedding that is not the head is looked up.
        let looked_up = if config.tied { 0 } else { vocab * config.d_model };
        prop_assert_eq!(counted.multiplied(), (matrices - looked_up) as f64);
    }

    #[test]
    fn operations_are_those_of_the_products_of_a_step((config, vocab) in shape(), rows in 1..5_usize, length in 1..9_usize) {
        // Every product of a step, as (rows, inner, columns): each matrix of the model with every place, and for each
        // head of each layer queries with keys and weights with values.
        let model = model(&config, vocab);
        let places = rows * length;
        let looked_up = usize::from(!config.tied);
        let mut products: Vec<[usize; 3]> =
            shapes::<2>(&model).into_iter().skip(looked_up).map(|shape| [places, shape[0], shape[1]]).collect();
        for _ in 0..rows * config.layers * config.heads {
            products.push([length, config.head_dim(), length]);
            products.push([length, length, config.head_dim()]);
        }
        let forward: usize = products.iter().map(|[rows, inner, columns]| 2 * rows * inner * columns).sum();
        // Each product going forward has two of its size going backward.
        prop_assert_eq!(Flops::new(&config, vocab).for_rows(rows, length), (3 * forward) as f64);
    }
}

#[test]
fn gpt_2_small_costs_what_the_paper_s_formula_says() {
    let config = ModelConfig {
        layers: 12,
        d_model: 768,
        heads: 12,
        d_ff: 3072,
        activation: Activation::Gelu,
        ..ModelConfig::default()
    };
    assert_eq!(Parameters::new(&config, 50_257).total(), 123_551_232.0);
    // 6 N + 12 L H Q T, for T = 1024 and the N that are in products.
    let place = 6.0 * f64::from(12 * 12 * 768 * 768 + 50_257 * 768) + f64::from(12 * 12 * 12 * 64 * 1024);
    assert_eq!(Flops::new(&config, 50_257).per_place(1024), place);
}

#[test]
fn memory_grows_with_what_a_run_holds() {
    let model = ModelConfig {
        layers: 3,
        heads: 8,
        head_dim: Some(32),
        vocab_size: Some(300),
        ..ModelConfig::default()
    };
    let mut base = RunConfig::default().with_model(model);
    (base.data.pipeline.seq_len, base.data.pipeline.batch_size) = (64, 4);
    let of = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = base.clone();
        change(&mut config);
        Memory::with_parts(&config, 300, 2)
    };
    let usual = of(&|_| {});
    let (parameters, head) = (4.0 * Parameters::new(&base.model, 300).total(), f64::from(4 * 300 * 128));
    // A gradient in each part, where those of the head and of the embedding are added up.
    assert_eq!(
        (usual.parameters, usual.moments, usual.gradients),
        (parameters, 2.0 * parameters, 2.0 * (parameters + 2.0 * head))
    );
    // Muon has one moment of the matrices of the layers.
    let muon = of(&|config| config.train.optimizer = OptimizerKind::Muon);
    assert_eq!(muon.moments, usual.moments - 4.0 * Parameters::new(&base.model, 300).blocks);
    let single = of(&|config| (config.model.tied, config.data.pipeline.batch_size) = (false, 1));
    assert_eq!(
        single.gradients,
        2.0 * (parameters + head),
        "what a checkpoint writes is more than one gradient"
    );
    let assert_added = |memory: Memory, sum: f64| {
        let apart = |memory: &Memory| memory.total() - memory.allocator + memory.overlap;
        let more = apart(&memory) - apart(&usual);
        assert!((more - sum).abs() < 1.0, "{more} more, and not {sum}: {memory}, and {usual}");
    };
    // The sum of the batches' gradients.
    assert_added(of(&|config| config.train.accumulate = 2), parameters);
    // Rows by their tokens, of which the last is not full.
    let by_tokens = |config: &mut RunConfig| {
        (config.data.pipeline.batch_tokens, config.data.pipeline.batch_size) = (Some(3 * 64 + 1), 99)
    };
    assert_eq!(of(&by_tokens), usual);
    // Keys and values of 6 heads less, in each layer at each place, and what makes them with its moments and gradients.
    let fewer = of(&|config| config.model.kv_heads = Some(2));
    let places = f64::from(3 * 4 * 64 * 2 * 6 * 32 * 4);
    let weights = f64::from(3 * 128 * 2 * 6 * 32 * 4);
    // One of the parameters, two moments, and a gradient in each part.
    assert_added(fewer, -places - weights * (1.0 + 2.0 + 2.0));
    // The inputs of the norms of 8 heads of queries and 8 of keys, in each layer at each place, and the gains.
    let normed = of(&|config| config.model.qk_norm = true);
    assert_added(
        normed,
        f64::from(3 * 4 * 64 * 2 * 8 * 32 * 4) + f64::from(3 * 2 * 32 * 4) * (1.0 + 2.0 + 2.0),
    );
    let on = |device: &str| {
        [Precision::F32, Precision::Bf16].map(|precision| {
            of(&|config| {
                config.train.device = device.to_owned();
                (config.train.precision, config.data.pipeline.batch_size) = (precision, 64);
            })
        })
    };
    let [usual, narrow] = on("cuda");
    assert_eq!(
        (narrow.parameters, narrow.moments, narrow.gradients),
        (usual.parameters, usual.moments, usual.gradients)
    );
    assert!(narrow.activations < 0.7 * usual.activations, "{narrow}, and {usual}");
    // On the CPU only what enters a product is narrow.
    let [usual, narrow] = on("flex");
    let kept = narrow.activations / usual.activations;
    assert!((0.7..1.0).contains(&kept), "{narrow}, and {usual}");
    // A layer's activations go as its gradients come, so the fewer of both are never there beside all of the others.
    let long = of(&|config| config.data.pipeline.batch_size = 64);
    let blocks = 2.0 * 4.0 * Parameters::new(&base.model, 300).blocks;
    assert_eq!(long.overlap, blocks);
    let short = of(&|config| (config.data.pipeline.batch_size, config.data.pipeline.seq_len) = (2, 1));
    assert!(0.0 < short.overlap && short.overlap < short.activations, "{short}");
}

#[test]
fn a_prediction_names_its_terms() {
    let kib = 1024.0;
    let memory = Memory {
        parameters: kib,
        moments: 2.0 * kib,
        gradients: 3.0 * kib,
        activations: 4.0 * kib,
        overlap: 2.0 * kib,
        allocator: 5.0 * kib,
    };
    assert_eq!(
        memory.to_string(),
        "about 13.0 KiB: parameters 1.0 KiB, moments 2.0 KiB, gradients 3.0 KiB, activations 4.0 KiB, less 2.0 KiB that \
         are never held at once, allocator 5.0 KiB"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_may_not_fit_is_warned_about_and_one_that_fits_is_not() {
    let mut config = RunConfig::default();
    assert_eq!(Memory::new(&config, 300).warning(&config), None);
    let memory = Memory::new(&config, 300);
    assert_eq!(memory.disk_warning(&config, 0), None);
    // No disk has room for as many checkpoints as this.
    config.train.keep = usize::MAX;
    config.train.out = "nowhere/yet".into();
    let warning = memory.disk_warning(&config, 0).expect("a warning");
    assert!(warning.starts_with("the disk of nowhere/yet has "), "{warning}");
    assert!(warning.ends_with(" each; make room, or lower train.keep"), "{warning}");
    (config.data.pipeline.seq_len, config.data.pipeline.batch_size) = (1 << 24, 1 << 30);
    let memory = Memory::new(&config, 300);
    memory.check(&config).expect("its parameters fit");
    let warning = memory.warning(&config).expect("a warning");
    assert!(warning.contains("so the run may be stopped for want of memory"), "{warning}");
}

#[test]
fn no_shape_overflows() {
    let model = ModelConfig {
        layers: usize::MAX,
        d_model: usize::MAX,
        heads: usize::MAX,
        head_dim: Some(usize::MAX - 1),
        d_ff: usize::MAX,
        ..ModelConfig::default()
    };
    let mut config = RunConfig { model, ..RunConfig::default() };
    (config.data.pipeline.seq_len, config.data.pipeline.batch_size) = (usize::MAX, usize::MAX);
    let memory = Memory::new(&config, usize::MAX);
    assert!(memory.total().is_finite() && memory.total() > 1e60);
    assert!(Flops::new(&config.model, usize::MAX).for_rows(usize::MAX, usize::MAX).is_finite());
    assert!(memory.to_string().contains(" EiB"), "{memory}");
}
