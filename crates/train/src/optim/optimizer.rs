//! Applies gradients to a model, after a global clip. Holds the optimizer's moments: two for each parameter that AdamW
//! steps, and one for each that Muon steps.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::Tensor;

use super::adamw::AdamW;
use super::gradients::{Factor, global_norm, scale};
use super::muon::Muon;
use crate::config::{OptimizerKind, TrainConfig};
use crate::device::reading::read;
use crate::model::{HiddenMatrix, LanguageModel};
use millstream::cursor::Fingerprint;
use millstream::error::{Error, Result, code_in};

/// The optimizer of a whole model, after a clip by the global norm of the gradients.
///
/// AdamW (Loshchilov and Hutter, arXiv:1711.05101) steps all parameters. With [`OptimizerKind::Muon`], Muon steps the
/// [hidden matrices](LanguageModel::hidden_matrices) instead. Matrices and embeddings decay; gains, which have one
/// dimension, do not.
#[derive(Clone)]
pub struct Optimizer {
    burn: ModuleOptimizer,
    /// Whether parameters may have different optimizers, so that the name does not tell each one's moments.
    is_mixed: bool,
    /// The optimizer's name, which a checkpoint's moments belong to.
    fingerprint: Fingerprint,
    clip: f64,
}

impl fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Optimizer");
        debug.field("fingerprint", &self.fingerprint).field("clip", &self.clip).finish_non_exhaustive()
    }
}

/// Makes a custom optimizer for a model. It is asked again for the model of a checkpoint, whose parameters have other
/// ids.
pub(crate) struct Custom<M> {
    name: String,
    is_mixed: bool,
    make: Box<dyn Fn(&M) -> ModuleOptimizer + Send + Sync>,
}

impl<M> fmt::Debug for Custom<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<M> Custom<M> {
    pub(crate) fn new<O: Into<ModuleOptimizer>, F>(make: F) -> Self
    where
        F: Fn(&M) -> O + Send + Sync + 'static,
    {
        // burn does not tell which optimizers a ModuleOptimizer has: the function that makes it has a name.
        let is_mixed = type_name::<O>() == type_name::<ModuleOptimizer>();
        let name = format!("custom {}", if is_mixed { short_name::<F>() } else { short_name::<O>() });
        Self { name, is_mixed, make: Box::new(move |model: &M| -> ModuleOptimizer { make(model).into() }) }
    }

    /// The optimizer without state for `model`.
    pub(crate) fn optimizer(&self, config: &TrainConfig, model: &M) -> Optimizer {
        Optimizer::named(self.name.clone(), self.is_mixed, (self.make)(model), config)
    }
}

impl Optimizer {
    /// Creates an optimizer without state for `model`, and keeps the ids of the model's parameters.
    ///
    /// # Errors
    /// [`Error::Config`] for Muon, if the model names no hidden matrices.
    pub fn new(config: &TrainConfig, model: &impl LanguageModel) -> Result<Self> {
        let gains = ParamGroup::from_ids(gains(model));
        let mut burn = ModuleOptimizer::from(AdamW::new(config, config.weight_decay));
        burn = burn.with_group(gains, AdamW::new(config, 0.0), None);
        if config.optimizer == OptimizerKind::Muon {
            for (widths, ids) in by_widths(model.hidden_matrices())? {
                burn =
                    burn.with_group(ParamGroup::from_ids(ids), Muon::new(config.weight_decay, widths), None);
            }
        }
        let is_mixed = config.optimizer == OptimizerKind::Muon;
        Ok(Self::named(serde_json::json!(config.optimizer).to_string(), is_mixed, burn, config))
    }

    fn named(name: String, is_mixed: bool, burn: ModuleOptimizer, config: &TrainConfig) -> Self {
        let fingerprint = Fingerprint(BTreeMap::from([("train.optimizer".to_owned(), name)]));
        Self { burn, is_mixed, fingerprint, clip: f64::from(config.clip) }
    }

    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
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
        self.burn.step(lr, model, gradients)
    }

    /// Writes the moments as a burnpack file.
    ///
    /// # Errors
    /// [`Error::Train`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        written(self.burn.save(path), path)
    }

    /// Loads the moments that [`save`](Self::save) wrote; they belong to the model saved with them.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the file cannot be read, or has the moments of another optimizer.
    pub fn load(self, path: &Path) -> Result<Self> {
        let refused = |problem: String| Error::Checkpoint { path: path.to_owned(), problem, resume: None };
        let record = OptimizerRecord::load(path).map_err(|e| refused(e.to_string()))?;
        let saved = record.len();
        let burn = self.burn.load_record(record);
        // burn leaves out moments that a parameter's optimizer cannot take. Counting the others copies them all.
        let taken = if self.is_mixed { burn.to_record().len() } else { saved };
        match taken == saved {
            true => Ok(Self { burn, ..self }),
            false => Err(refused(format!(
                "it has {saved} tensors of moments, and the optimizer takes {taken} of them; resume with the optimizer \
                 that saved them"
            ))),
        }
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

/// The last name in the path of a type or a function; for a closure, that of the function around it.
fn short_name<T>() -> &'static str {
    let path = type_name::<T>().trim_end_matches("::{{closure}}");
    let path = path.find('<').filter(|at| *at > 0).map_or(path, |at| &path[..at]);
    path.rsplit("::").next().unwrap_or(path)
}

/// The ids of matrices, by what each parameter holds.
fn by_widths(matrices: Vec<HiddenMatrix>) -> Result<BTreeMap<Vec<usize>, Vec<ParamId>>> {
    if matrices.is_empty() {
        let problem = "\"muon\" is for the matrices of hidden layers, and this model names none; name them \
                       (LanguageModel::hidden_matrices), or set \"adamw\"";
        return Err(Error::config("train.optimizer", problem));
    }
    let mut ids = BTreeMap::<_, Vec<_>>::new();
    for HiddenMatrix { id, widths } in matrices {
        ids.entry(widths).or_default().push(id);
    }
    Ok(ids)
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
