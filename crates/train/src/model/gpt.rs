//! The GPT: takes token ids, returns hidden states or logits.

use burn::module::{Module, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Int, Tensor};

use super::attention::{Attention, KeyValues};
use super::dropout::{Draws, Dropout};
use super::hidden::HiddenMatrix;
use super::init::{Init, Initial};
use super::language_model::LanguageModel;
use super::lora::{Attach, Lora, merge};
use super::mlp::Mlp;
use super::norm::Norm;
use super::rope::Rope;
use super::tensors::Tensors;
use crate::config::{ModelConfig, Precision, RunConfig};
use crate::kernels::embedding::embed;
use crate::kernels::loss::{HeadLoss, head_loss, head_nats};
use millstream::error::{Error, Result};
use millstream::tokenizer::Tokenizer;

/// A decoder-only transformer.
///
/// A pre-norm decoder: RMSNorm, rotary positions, causal attention, SwiGLU or GELU, no biases, and a head that is tied
/// to the embedding or separate. Training stops at [`Gpt::hidden`]: the head and the loss are one operation, in
/// [`loss`](crate::loss). Attention goes [block by block](crate::attention). Held in memory: the parameters and two rotary
/// tables.
///
/// # Precision
///
/// Parameters are f32, and so are their gradients and the optimizer's moments: a step of 1e-4 on a gain of 1.0 is less
/// than half of the smallest difference that bf16 can hold at 1.0, and would be lost. With [`Precision::Bf16`] the
/// products are bf16: the large tensors and nearly all of the work. The model casts the input of each product to bf16,
/// and each product casts its weights to the type of its input. Operations between two products, such as SwiGLU, are
/// bf16 too. Norms, rotation, softmax, loss and the residual stream, to which every block adds a little, are f32.
#[derive(Module, Debug)]
pub struct Gpt {
    /// The embedding, `[vocab, d_model]`; also the head if the head is tied.
    pub embedding: Param<Tensor<2>>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// The norm before the head.
    pub norm: Norm,
    /// The head's separate weights, `[vocab, d_model]`, if it is not tied.
    pub head: Option<Param<Tensor<2>>>,
    rope: Rope,
    #[module(skip)]
    precision: Precision,
    /// The dropout of what enters the adapters, in training.
    #[module(skip)]
    dropout: Option<Dropout>,
}

/// One block: attention and feed-forward network, each after a norm and inside a residual connection.
#[derive(Module, Debug)]
pub struct Block {
    /// The norm before the attention.
    pub attention_norm: Norm,
    /// The attention.
    pub attention: Attention,
    /// The norm before the feed-forward network.
    pub mlp_norm: Norm,
    /// The feed-forward network.
    pub mlp: Mlp,
}

impl Gpt {
    /// Creates a new model. Its weights are drawn from `seed` alone, on the host, so they begin the same on every
    /// device.
    ///
    /// Matrices are normal with a standard deviation of `0.02 * sqrt(768 / d_model)`. The two of each block that write
    /// to the residual stream are scaled down by `sqrt(2 * layers)`, as in GPT-2.
    pub fn new(config: &ModelConfig, vocab: usize, seq_len: usize, seed: u64, device: &Device) -> Self {
        Self::build(config, vocab, seq_len, Initial::Drawn(seed), device)
    }

    fn build(config: &ModelConfig, vocab: usize, seq_len: usize, initial: Initial, device: &Device) -> Self {
        let mut init = Init::new(config, initial, device);
        let embedding = init.matrix([vocab, config.d_model], init.std);
        let blocks = (0..config.layers)
            .map(|_| Block {
                attention_norm: Norm::new(config, config.d_model, &mut init),
                attention: Attention::new(config, &mut init),
                mlp_norm: Norm::new(config, config.d_model, &mut init),
                mlp: Mlp::new(config, &mut init),
            })
            .collect();
        let head = (!config.tied).then(|| init.matrix([vocab, config.d_model], init.std));
        let norm = Norm::new(config, config.d_model, &mut init);
        let scaling = config.rope_scaling.as_ref();
        let rope = Rope::new(seq_len, config.head_dim(), config.rope_theta, scaling, device);
        Self { embedding, blocks, norm, head, rope, precision: Precision::F32, dropout: None }
    }

    /// Computes products in `precision`. The parameters are f32 in each.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Creates a new model of the shape and in the precision that a config says, for the ids of `tokenizer`.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer has more ids than `model.vocab_size`.
    pub fn from_config(config: &RunConfig, tokenizer: &dyn Tokenizer, device: &Device) -> Result<Self> {
        Self::with_initial(config, tokenizer, Initial::Drawn(config.data.seed), device)
    }

    /// As [`from_config`](Self::from_config), with weights that may be loaded later.
    pub(crate) fn with_initial(
        config: &RunConfig,
        tokenizer: &dyn Tokenizer,
        initial: Initial,
        device: &Device,
    ) -> Result<Self> {
        let ids = tokenizer.vocab_size();
        let vocab = config.model.vocab_size.unwrap_or(ids);
        if vocab < ids {
            let problem =
                format!("must be at least {ids}, the number of ids that the tokenizer has, not {vocab}");
            return Err(Error::config("model.vocab_size", problem));
        }
        let model = Self::build(&config.model, vocab, config.data.pipeline.seq_len, initial, device);
        Ok(model.with_precision(config.train.precision))
    }

    /// Adds the adapters of `[train.lora]`, if there are any, and freezes everything else: no gradient is computed for it,
    /// and no optimizer steps it. The model's results stay as they are: all second factors are 0.
    pub(crate) fn with_adapters(self, config: &RunConfig) -> Self {
        let Some(lora) = &config.train.lora else { return self };
        let mut model = self.no_grad();
        let device = model.embedding.val().device();
        let mut attach = Attach::new(&config.model, lora, config.data.seed, &device);
        for Block { attention, mlp, .. } in &mut model.blocks {
            [attention.qkv_lora, attention.out_lora, mlp.up_lora, mlp.down_lora] = attach.block();
        }
        model.dropout = (lora.dropout > 0.0).then(|| Dropout::new(lora.dropout, config.data.seed));
        model
    }

    /// Whether only adapters are trained.
    pub fn has_adapters(&self) -> bool {
        self.adapters().next().is_some()
    }

    fn adapters(&self) -> impl Iterator<Item = &Lora> {
        self.blocks.iter().flat_map(|block| block.attention.adapters().chain(block.mlp.adapters()))
    }

    /// Returns the model without autodiff, and without adapters: what they add to the matrices is added.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut model = self.valid();
        for Block { attention, mlp, .. } in &mut model.blocks {
            merge(&mut attention.qkv, &mut attention.qkv_lora);
            merge(&mut attention.out, &mut attention.out_lora);
            merge(&mut mlp.up, &mut mlp.up_lora);
            merge(&mut mlp.down, &mut mlp.down_lora);
        }
        model
    }

    /// Returns the hidden states after the last norm, `[batch, length, d_model]`, for ids `[batch, length]`, in the type
    /// of the products. Each row is one text; or it holds documents that do not see each other, in which the ids have these
    /// `positions`, `[batch, length]`.
    ///
    /// # Panics
    /// If `length` is more than the model's `seq_len`.
    pub fn hidden(&self, ids: Tensor<2, Int>, positions: Option<&Tensor<2, Int>>) -> Tensor<3> {
        self.hidden_with(ids, positions, None)
    }

    /// As [`hidden`](Self::hidden), with dropout of what enters the adapters.
    fn hidden_with(
        &self,
        ids: Tensor<2, Int>,
        positions: Option<&Tensor<2, Int>>,
        draws: Option<&Draws>,
    ) -> Tensor<3> {
        let [_, length] = ids.dims();
        let rope = match positions {
            Some(positions) => self.rope.at_each(positions),
            None => self.rope.at(0, length),
        };
        let starts = positions.map(|positions| {
            let places = Tensor::<1, Int>::arange(0..length as i64, &positions.device());
            places.unsqueeze::<2>() - positions.clone()
        });
        let mut x = embed(self.embedding.val(), ids);
        for block in &self.blocks {
            let read = self.narrow(block.attention_norm.forward(x.clone()));
            x = x + wide(block.attention.forward_with(read, &rope, starts.as_ref(), draws));
            x = self.feed_forward(block, x, draws);
        }
        self.narrow(self.norm.forward(x))
    }

    /// Returns the logits `[batch, length, vocab]` for ids `[batch, length]`. Use it to inspect a model, not to train
    /// it.
    pub fn logits(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let hidden = self.hidden(ids, None);
        let [batch, length, width] = hidden.dims();
        let logits = self.read_out(hidden.reshape([batch * length, width]));
        let [_, vocab] = logits.dims();
        logits.reshape([batch, length, vocab])
    }

    /// Returns the logits `[batch, vocab]` of the id after `ids`, `[batch, length]`, which follow the ids in `cache`.
    /// Adds the keys and values of `ids` to the cache.
    pub fn next_logits(&self, ids: Tensor<2, Int>, cache: &mut KeyValues) -> Tensor<2> {
        let [batch, length] = ids.dims();
        let rope = self.rope.at(cache.len(), length);
        let mut x = embed(self.embedding.val(), ids);
        for (index, block) in self.blocks.iter().enumerate() {
            let read = self.narrow(block.attention_norm.forward(x.clone()));
            x = x + wide(block.attention.forward_cached(read, &rope, cache, index));
            x = self.feed_forward(block, x, None);
        }
        let width = x.dims()[2];
        let last = x.slice([0..batch, length - 1..length]).reshape([batch, width]);
        self.read_out(self.narrow(self.norm.forward(last)))
    }

    /// Adds the output of a block's feed-forward network to the residual stream.
    fn feed_forward(&self, block: &Block, x: Tensor<3>, draws: Option<&Draws>) -> Tensor<3> {
        let read = self.narrow(block.mlp_norm.forward(x.clone()));
        x + wide(block.mlp.forward_with(read, draws))
    }

    /// The logits of hidden states, f32.
    fn read_out(&self, hidden: Tensor<2>) -> Tensor<2> {
        let head = self.head_weight().cast(hidden.dtype());
        hidden.matmul(head.transpose()).cast(DType::F32)
    }

    /// Casts the input of a product.
    fn narrow<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self.precision {
            Precision::F32 => x,
            Precision::Bf16 => x.cast(DType::BF16),
        }
    }

    /// The maximum number of ids that the model can see at once.
    pub fn seq_len(&self) -> usize {
        self.rope.len()
    }

    /// The weights of the head, `[vocab, d_model]`.
    fn head_weight(&self) -> Tensor<2> {
        self.head_param().val()
    }

    /// The id of the head's parameter, which is the embedding's id if the head is tied.
    pub fn head_id(&self) -> ParamId {
        self.head_param().id
    }

    fn head_param(&self) -> &Param<Tensor<2>> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

/// Casts the output of a part of a block for the residual stream.
fn wide(x: Tensor<3>) -> Tensor<3> {
    x.cast(DType::F32)
}

/// The body of the model goes through autodiff; the head and the loss do not. [`head_loss`] gives the gradient of the
/// hidden states, and autodiff goes back from the product of the hidden states and that gradient.
impl LanguageModel for Gpt {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        let Tensors { inputs, targets, mask, positions } = tensors.clone();
        let [rows, length] = targets.dims();
        let hidden = self.hidden(inputs, positions.as_ref());
        let width = hidden.dims()[2];
        head_nats(
            hidden.reshape([rows * length, width]),
            self.head_weight(),
            targets.reshape([rows * length]),
            mask.map(|mask| mask.reshape([rows * length, 1])),
        )
        .reshape([rows, length])
    }

    fn gradients(&self, tensors: &Tensors) -> (Tensor<2>, GradientsParams) {
        let Tensors { inputs, targets, mask, positions } = tensors.clone();
        let [rows, length] = targets.dims();
        let draws = self.dropout.as_ref().map(|dropout| dropout.draws(&inputs));
        let hidden = self.hidden_with(inputs, positions.as_ref(), draws.as_ref());
        let width = hidden.dims()[2];
        let hidden = hidden.reshape([rows * length, width]);
        let [states, weights] = [hidden.clone(), self.head_weight()].map(Tensor::inner);
        let targets = targets.reshape([rows * length]).inner();
        let mask = mask.map(|mask| mask.reshape([rows * length, 1]).inner());
        let is_frozen = !self.head_param().is_require_grad();
        let HeadLoss { nats, hidden: hidden_gradient, head } =
            head_loss(states, weights, targets, mask, is_frozen);
        // By the chain rule, the gradient of this sum for every parameter below is that of the loss.
        let bridge = (hidden * Tensor::from_inner(hidden_gradient)).sum();
        let mut params = GradientsParams::from_grads(bridge.backward(), self);
        if let Some(head) = head {
            let id = self.head_id();
            let head = match params.remove::<2>(id) {
                Some(embedding) => embedding + head,
                None => head,
            };
            params.register(id, head);
        }
        (nats.reshape([rows, length]), params)
    }

    fn begin_step(&mut self, step: u64) {
        if let Some(dropout) = &mut self.dropout {
            dropout.step = step;
        }
    }

    fn seq_len(&self) -> Option<usize> {
        Some(Gpt::seq_len(self))
    }

    fn hidden_matrices(&self) -> Vec<HiddenMatrix> {
        if self.has_adapters() {
            return self.adapters().flat_map(Lora::matrices).collect();
        }
        let of_block = |block: &Block| [block.attention.matrices(), block.mlp.matrices()].concat();
        self.blocks.iter().flat_map(of_block).collect()
    }
}

#[cfg(test)]
mod tests {
    use burn::module::ModuleVisitor;

    use super::*;
    use millstream::tokenizer::ByteTokenizer;

    /// The shape of each parameter, and whether it is a matrix with another value than 0.
    #[derive(Default)]
    struct Seen(Vec<(Vec<usize>, bool)>);

    impl ModuleVisitor for Seen {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let values = param.val().into_data().try_to_vec::<f32>().expect("f32");
            let is_drawn = D == 2 && values.iter().any(|value| *value != 0.0);
            self.0.push((param.val().dims().to_vec(), is_drawn));
        }
    }

    #[test]
    fn weights_that_are_loaded_later_are_not_drawn_first() {
        let shape = ModelConfig { tied: false, qkv_bias: true, qk_norm: true, ..ModelConfig::default() };
        let config = RunConfig::default().with_model(shape);
        let seen = |initial| {
            let model =
                Gpt::with_initial(&config, &ByteTokenizer, initial, &Device::flex()).expect("a model");
            let mut seen = Seen::default();
            model.visit(&mut seen);
            seen.0
        };
        let (drawn, loaded) = (seen(Initial::Drawn(1)), seen(Initial::Loaded));
        assert!(drawn.iter().all(|(shape, is_drawn)| *is_drawn == (shape.len() == 2)));
        assert!(loaded.iter().all(|(_, is_drawn)| !is_drawn));
        let shapes =
            |seen: &[(Vec<usize>, bool)]| seen.iter().map(|(shape, _)| shape.clone()).collect::<Vec<_>>();
        assert_eq!(shapes(&loaded), shapes(&drawn));
    }
}
