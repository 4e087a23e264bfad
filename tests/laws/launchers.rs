//! The rank by the config and by each launcher's environment.

use std::collections::HashMap;

use millstream::config::PipelineConfig;
use millstream::world::World;

fn detect(pipeline: &PipelineConfig, variables: &[(&str, &str)]) -> Result<(usize, usize), String> {
    let variables: HashMap<&str, &str> = variables.iter().copied().collect();
    let world = World::detect_in(pipeline, |name| variables.get(name).map(ToString::to_string));
    world.map(|world| (world.rank, world.size)).map_err(|error| error.to_string())
}

fn pipeline(lanes: usize, batch_size: usize) -> PipelineConfig {
    PipelineConfig { lanes: lanes.into(), batch_size, ..PipelineConfig::default() }
}

#[test]
fn each_launcher_says_the_rank_and_the_world() {
    let pipeline = pipeline(8, 8);
    for (rank, world) in [
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("JOB_COMPLETION_INDEX", "WORLD_SIZE"),
    ] {
        assert_eq!(detect(&pipeline, &[(rank, "3"), (world, "4")]), Ok((3, 4)), "{rank}");
        // What is set to nothing is not set.
        assert_eq!(detect(&pipeline, &[(rank, ""), (world, "4")]), Ok((0, 1)), "{rank}");
        let error = detect(&pipeline, &[(rank, "3")]).expect_err("no world");
        assert_eq!(
            error,
            format!("pipeline.world: the rank is 3, and the variable {world} is not set; set pipeline.world")
        );
        let error = detect(&pipeline, &[(rank, "three"), (world, "4")]).expect_err("no number");
        assert_eq!(
            error,
            format!("{rank}: the variable is \"three\", which is not a number; correct or unset it")
        );
    }
    assert_eq!(detect(&pipeline, &[]), Ok((0, 1)));
    // torchrun within an allocation of Slurm.
    let both = [("RANK", "1"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
    assert_eq!(detect(&pipeline, &both), Ok((1, 2)));
    // mpirun within a job of Slurm, where each process has the variables of the one that runs the job's script.
    for (rank, world) in [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")] {
        let both = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), (rank, "3"), (world, "4")];
        assert_eq!(detect(&pipeline, &both), Ok((3, 4)));
    }
}

#[test]
fn the_config_goes_over_the_environment() {
    let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
    let with = |rank: Option<usize>, world: Option<usize>| PipelineConfig { rank, world, ..pipeline(8, 8) };
    assert_eq!(detect(&with(None, Some(1)), &slurm), Ok((0, 1)));
    assert_eq!(detect(&with(Some(3), Some(4)), &slurm), Ok((3, 4)));
    assert_eq!(detect(&with(Some(3), None), &slurm), Ok((3, 8)));
    assert_eq!(detect(&with(None, Some(4)), &[("JOB_COMPLETION_INDEX", "2")]), Ok((2, 4)));
    // What it sets need not be a number in the environment.
    let odd = [("RANK", "abc"), ("WORLD_SIZE", "8 nodes")];
    assert_eq!(detect(&with(Some(3), Some(4)), &odd), Ok((3, 4)));
    assert_eq!(detect(&with(Some(3), None), &[odd[0], ("WORLD_SIZE", "8")]), Ok((3, 8)));
    assert_eq!(detect(&with(None, Some(4)), &[("RANK", "2"), odd[1]]), Ok((2, 4)));
    let error = detect(&with(None, Some(4)), &odd).expect_err("no number");
    assert!(error.starts_with("RANK: the variable is \"abc\""), "{error}");
    let error = detect(&with(Some(3), None), &odd).expect_err("no number");
    assert!(error.starts_with("WORLD_SIZE: the variable is \"8 nodes\""), "{error}");
    let error = detect(&with(None, Some(4)), &[]).expect_err("no rank");
    assert!(error.starts_with("pipeline.rank: the world is 4"), "{error}");
    let error = detect(&with(Some(4), Some(4)), &[]).expect_err("no such rank");
    assert_eq!(error, "`pipeline.rank` must be less than the world's size, 4, not 4");
    let error = detect(&pipeline(8, 8), &[("RANK", "5"), ("WORLD_SIZE", "2")]).expect_err("no such rank");
    assert_eq!(error, "`RANK` must be less than the world's size, 2, not 5");
}

#[test]
fn a_task_of_an_array_that_is_not_described_is_told_what_is_missing() {
    let alone = |name: &str| (name == "SLURM_ARRAY_TASK_ID").then(|| "3".to_owned());
    let error = World::of_preparing_in(alone).expect_err("of how many").to_string();
    assert_eq!(error, "SLURM_ARRAY_TASK_MIN: the variable is not set; say which part this is");
}

#[test]
fn a_world_that_does_not_divide_lanes_and_rows_is_refused() {
    let four = [("RANK", "0"), ("WORLD_SIZE", "4")];
    for (lanes, rows, said) in [
        (6, 8, "`pipeline.lanes` must be a multiple of the world's size, 4, not 6; set it to 8"),
        (8, 6, "`pipeline.batch_size` must be a multiple of the world's size, 4, not 6; set it to 8"),
        (
            6,
            6,
            "`pipeline.lanes` must be a multiple of the world's size, 4, not 6; set it to 8, and pipeline.batch_size to 8",
        ),
    ] {
        let config = PipelineConfig { rank: Some(0), world: Some(4), ..pipeline(lanes, rows) };
        assert_eq!(detect(&config, &four), Err(said.to_owned()));
        // The environment is named if it says how many there are.
        let origin = "the variables RANK and WORLD_SIZE say that this is one of 4 processes; if it is the only one, set \
                      pipeline.world = 1";
        assert_eq!(detect(&pipeline(lanes, rows), &four), Err(format!("{said} ({origin})")));
    }
    let by_tokens = |lanes| PipelineConfig { batch_tokens: Some(4096), ..pipeline(lanes, 6) };
    assert_eq!(detect(&by_tokens(8), &four), Ok((0, 4)));
    assert!(detect(&by_tokens(6), &four).is_err_and(|error| error.starts_with("`pipeline.lanes`")));
}
