//! Applies gradients to a model: AdamW in two groups, after a global clip. Holds two moments per parameter.

use std::io;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::Tensor;

use super::adamw::AdamW;
use super::gradients::{Factor, global_norm, scale};
use crate::device::reading::read;
use millstream::config::TrainConfig;
use millstream::error::{Error, Result, code_in};

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101) for a whole model.
///
/// Matrices and embeddings decay; gains, which have one dimension, do not.
#[derive(Clone)]
pub struct Optimizer {
    adamw: ModuleOptimizer,
    clip: f64,
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimizer").field("clip", &self.clip).finish_non_exhaustive()
    }
}

impl Optimizer {
    /// Creates an optimizer without state for `model`, and keeps the ids of the model's parameters.
    pub fn new(config: &TrainConfig, model: &impl Module) -> Self {
        let gains = ParamGroup::from_ids(gains(model));
        let adamw = ModuleOptimizer::from(AdamW::new(config, config.weight_decay));
        let adamw = adamw.with_group(gains, AdamW::new(config, 0.0), None);
        Self { adamw, clip: f64::from(config.clip) }
    }

    /// Does one step of `model` along the gradients of a loss summed over `tokens` targets. The gradients are divided
    /// by `tokens` and clipped. Returns the model and the gradient's norm before the clip.
    ///
    /// # Errors
    /// [`Error::Train`] if the norm is not finite or the device fails. The model is not changed then.
    pub fn step<M: Module>(
        &mut self,
        model: M,
        gradients: GradientsParams,
        tokens: usize,
        lr: f64,
    ) -> Result<(M, f64)> {
        let norm = global_norm(&model, &gradients).map(read).transpose()?;
        let norm = norm.map_or(0.0, |norm| f64::from(norm[0])) / tokens.max(1) as f64;
        match norm.is_finite() {
            true => Ok((self.apply(model, gradients, &self.factor(norm, tokens), lr), norm)),
            false => Err(Error::Train("the gradient is not finite: the run has diverged".to_owned())),
        }
    }

    /// The factor of the gradients of a loss summed over `tokens` targets, given the norm of their mean.
    pub(crate) fn factor(&self, norm: f64, tokens: usize) -> Factor {
        let clip = if self.clip > 0.0 && norm > self.clip { self.clip / norm } else { 1.0 };
        Factor::Known(clip / tokens.max(1) as f64)
    }

    /// As [`factor`](Self::factor), for the norm of their sum, `[1]`, that the device may still be at work on.
    pub(crate) fn factor_on_device(&self, norm: Tensor<1>, tokens: usize) -> Factor {
        let mean = 1.0 / tokens.max(1) as f64;
        if self.clip == 0.0 {
            return Factor::Known(mean);
        }
        // Without a gradient the quotient is infinite, and nothing is clipped.
        let clip = norm.mul_scalar(mean).recip().mul_scalar(self.clip).clamp_max(1.0);
        Factor::OnDevice(clip.mul_scalar(mean))
    }

    /// Does one step along the gradients times `factor`.
    pub(crate) fn apply<M: Module>(
        &mut self,
        model: M,
        mut gradients: GradientsParams,
        factor: &Factor,
        lr: f64,
    ) -> M {
        scale(&model, &mut gradients, factor);
        self.adamw.step(lr, model, gradients)
    }

    /// Writes the moments as a burnpack file.
    ///
    /// # Errors
    /// [`Error::Train`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        written(self.adamw.save(path), path)
    }

    /// Loads the moments that [`save`](Self::save) wrote; they belong to the model saved with them.
    ///
    /// # Errors
    /// [`Error::Cursor`] if the file cannot be read.
    pub fn load(self, path: &Path) -> Result<Self> {
        let record = OptimizerRecord::load(path)
            .map_err(|e| Error::Cursor { path: path.to_owned(), problem: e.to_string() })?;
        Ok(Self { adamw: self.adamw.load_record(record), clip: self.clip })
    }
}

/// The result of burn's save of a record to `path`. burn syncs the directory as well, which some file systems call
/// invalid: then the record is there, and [`sync`](millstream::atomic::sync), which knows them, comes later.
pub(crate) fn written(saved: std::result::Result<(), impl std::fmt::Display>, path: &Path) -> Result<()> {
    match saved.map_err(|e| e.to_string()) {
        Err(e) if !e.contains("was saved, but syncing its directory failed") => Err(match code_in(&e) {
            Some(code) => Error::io(path, "write", io::Error::from_raw_os_error(code)),
            None => Error::Train(format!("{}: {e}", path.display())),
        }),
        _ => Ok(()),
    }
}

/// The ids of all one-dimensional parameters.
fn gains(model: &impl Module) -> Vec<ParamId> {
    struct Gains(Vec<ParamId>);
    impl ModuleVisitor for Gains {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if D == 1 {
                self.0.push(param.id);
            }
        }
    }
    let mut gains = Gains(Vec::new());
    model.visit(&mut gains);
    gains.0
}
