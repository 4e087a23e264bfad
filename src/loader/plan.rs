//! Decides where the stream begins, its exclusions, its length, and how much memory each lane has.

use std::sync::Arc;

use super::budgets::budgets;
use super::chains::Chains;
use super::exclude::{self, Excluding};
use super::gauge::Gauge;
use super::resolve::Resolved;
use super::{caches, fingerprint, lanes, length, setting, start};
use crate::cursor::{Cursor, Event};
use crate::error::Result;
use crate::pin::Pinning;
use crate::source::{Holdout, Side};
use crate::stage::{Rounds, Workers};
use crate::tokenizer::Tokenizer;
use crate::world::World;

/// Everything that the streams are made of.
pub(super) struct Plan {
    pub(super) chains: Arc<Chains>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) world: World,
    pub(super) side: Side,
    pub(super) on_demand: bool,
    /// The cursor before the first batch.
    pub(super) start: Cursor,
    /// How many rounds of the lanes a finite stream has, if a rank cannot tell from its own lanes.
    pub(super) rounds: Option<Rounds>,
    /// The exclusions, and the events that cursors record about exclusions and weights, each with its first batch.
    pub(super) excluding: Excluding,
    pub(super) events: Vec<(u64, Event)>,
}

/// Checks the cursor against the resolved parts, and shares out the memory.
pub(super) async fn plan(resolved: Resolved) -> Result<Plan> {
    let Resolved {
        config,
        source,
        custom_source,
        side,
        world,
        tokenizer,
        encoder,
        stages,
        cursor,
        on_demand,
    } = resolved;
    let files = fingerprint::files(&config, &source).await?;
    let fingerprint = fingerprint::fingerprint(
        &config,
        &source,
        &files,
        custom_source.as_ref(),
        &*tokenizer,
        side,
        &stages,
    );
    let (start, mixture) = start::start(&config, &source, fingerprint, cursor)?;
    let (mut start, excluding) = exclude::excluding(&config, &source, side, world, start).await?;
    if side == Side::Train {
        lanes::check(&config, &source)?;
    }
    let holdout = Holdout { fraction: config.pipeline.holdout, side };
    let custom_source = custom_source.map(|custom| custom.on_side(holdout, &config)).transpose()?;
    let has_stages = !stages.documents.is_empty();
    let caches = caches::open(&config, &source, &*tokenizer, holdout, has_stages).await?;
    let setting = setting::setting(&config, &source, &stages, world);
    let workers = match on_demand {
        true => Workers::on_demand(),
        false => Workers::new(config.pipeline.most_workers()).shared_by(config.pipeline.lanes() / world.size),
    };
    let pin = Pinning::new(&config.pipeline.pin)?;
    let (workers, source) = (workers.with_pin(pin.clone()), source.with_pin(pin));
    let stores = source.stores().cloned();
    let mut budgets = budgets(&config, &source, side, world)?;
    let of_count = budgets.split_off(config.pipeline.lanes() / world.size).pop();
    let gauge = Gauge::new(budgets, world.size, setting, stages.meters(), workers.clone(), stores);
    let gauge = Arc::new(gauge);
    let schedule = mixture.schedule;
    let (lent, has_left_out, has_told) = (Arc::default(), Arc::default(), Arc::default());
    let chains = Arc::new(Chains {
        config,
        source,
        custom_source,
        caches,
        stages,
        encoder,
        workers,
        schedule,
        holdout,
        lent,
        has_left_out,
        has_told,
    });
    let rounds = length::rounds(&chains, &mut start, world, of_count, on_demand)?;
    start.keep_lanes(|lane| world.owns(lane))?;
    lanes::check_turn(&start, world)?;
    let events = mixture.changes.into_iter().chain(excluding.events.iter().cloned()).collect();
    Ok(Plan { chains, gauge, tokenizer, world, side, on_demand, start, rounds, excluding, events })
}
