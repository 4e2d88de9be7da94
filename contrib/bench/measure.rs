//! The order of the measurements. Every database has its daemon, and they are measured in turns, a little of each at a
//! time: whatever else the machine does then falls on all of them alike, and their ratios mean something.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Memory};
use crate::drive;
use crate::home::{Home, Kind, Purpose};
use crate::report::Samples;
use crate::{Outcome, Scale};

/// Turns that each daemon gets for the handoffs that come one after the other.
const TURNS: usize = 10;
/// A turn that takes longer hangs: the benchmark fails instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(180);
/// What a daemon gets to become idle after work.
const SETTLE: Duration = Duration::from_secs(1);

/// What was measured on one database.
pub(crate) struct Numbers {
    pub(crate) kind: Kind,
    pub(crate) ready: Samples,
    pub(crate) unnamed: Samples,
    pub(crate) wait: Samples,
    /// The same with a daemon whose commits do not wait for the disk. Only on a small database.
    pub(crate) unflushed: Samples,
    /// Of the same handoffs, the time up to each stage since the one before (the first since the request).
    pub(crate) stages: Vec<(String, Samples)>,
    pub(crate) event: Samples,
    pub(crate) claimed: Samples,
    pub(crate) foreign: Samples,
    pub(crate) burst_told: Samples,
    pub(crate) burst_waits: Samples,
    /// Does not depend on what else is in the database; only the small one is asked.
    pub(crate) transcript: Samples,
    pub(crate) fresh: Idle,
    /// Right after the first burst.
    pub(crate) first_burst: Option<Memory>,
    pub(crate) after: Idle,
}

/// A daemon that has nothing to do: its memory, and percent of one core.
#[derive(Default)]
pub(crate) struct Idle {
    pub(crate) memory: Memory,
    pub(crate) cpu: f64,
}

impl Numbers {
    fn new(kind: Kind) -> Numbers {
        Numbers {
            kind,
            ready: Samples::default(),
            unnamed: Samples::default(),
            wait: Samples::default(),
            unflushed: Samples::default(),
            stages: Vec::new(),
            event: Samples::default(),
            claimed: Samples::default(),
            foreign: Samples::default(),
            burst_told: Samples::default(),
            burst_waits: Samples::default(),
            transcript: Samples::default(),
            fresh: Idle::default(),
            first_burst: None,
            after: Idle::default(),
        }
    }
}

/// Measures all, the small database first.
pub(crate) async fn all(scale: &Scale) -> Outcome<Vec<Numbers>> {
    let mut homes = Vec::new();
    for kind in Kind::ALL {
        let began = Instant::now();
        homes.push(Home::make(kind, scale)?);
        progress(&format!("making the database: {}", kind.name()), began);
    }
    let mut numbers: Vec<Numbers> = Kind::ALL.into_iter().map(Numbers::new).collect();
    let began = Instant::now();
    drive::transcripts(&homes[0], scale, &mut numbers[0].transcript).await?;
    starts(&homes, scale, &mut numbers).await?;
    progress("transcripts and starts", began);

    let mut daemons = Vec::new();
    for home in &homes {
        daemons.push(Daemon::start(home).await?.0);
    }
    let began = Instant::now();
    for (numbers, idle) in numbers.iter_mut().zip(idle(&daemons, scale).await?) {
        numbers.fresh = idle;
    }
    progress("idle when fresh", began);
    let began = Instant::now();
    let beside = Home::make(Kind::Small, scale)?;
    let unflushed = Daemon::start_without_flushes(&beside).await?;
    one_by_one(&homes, &daemons, &unflushed, scale, &mut numbers).await?;
    unflushed.stop()?;
    beside.check_completed(Purpose::Wait, scale)?;
    progress("one after the other", began);
    let began = Instant::now();
    bursts(&daemons, scale, &mut numbers).await?;
    progress("bursts", began);
    let began = Instant::now();
    for (numbers, idle) in numbers.iter_mut().zip(idle(&daemons, scale).await?) {
        numbers.after = idle;
    }
    progress("idle after bursts", began);

    for (daemon, home) in daemons.into_iter().zip(&homes) {
        daemon.stop()?;
        for purpose in Purpose::ALL {
            home.check_completed(purpose, scale)?;
        }
    }
    Ok(numbers)
}

fn progress(what: &str, began: Instant) {
    eprintln!("{:>6.1} s  {what}", began.elapsed().as_secs_f64());
}

async fn in_time<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .map_err(|_| format!("a measurement did not end within {} s", PATIENCE.as_secs()))?
}

async fn starts(homes: &[Home], scale: &Scale, numbers: &mut [Numbers]) -> Outcome<()> {
    for _ in 0..scale.starts {
        for (home, numbers) in homes.iter().zip(&mut *numbers) {
            let (daemon, client, time) = Daemon::start(home).await?;
            numbers.ready.add(time);
            drop(client);
            daemon.stop()?;
        }
    }
    Ok(())
}

/// All at the same time: they have nothing to do, after all.
async fn idle(daemons: &[Daemon], scale: &Scale) -> Outcome<Vec<Idle>> {
    tokio::time::sleep(SETTLE).await;
    let began = Instant::now();
    let before = daemons.iter().map(Daemon::processor_time);
    let before = before.collect::<Outcome<Vec<f64>>>()?;
    tokio::time::sleep(scale.idle).await;
    let watched = began.elapsed().as_secs_f64();
    let look = |(daemon, before): (&Daemon, f64)| {
        Ok(Idle {
            memory: daemon.memory()?,
            cpu: (daemon.processor_time()? - before) / watched * 100.0,
        })
    };
    daemons.iter().zip(before).map(look).collect()
}

async fn one_by_one(
    homes: &[Home],
    daemons: &[Daemon],
    unflushed: &Daemon,
    scale: &Scale,
    numbers: &mut [Numbers],
) -> Outcome<()> {
    let mut beside = Numbers::new(Kind::Small);
    let turn_of = |sessions: &[String], turn: usize| {
        let from = sessions.len() * turn / TURNS;
        let to = sessions.len() * (turn + 1) / TURNS;
        sessions[from..to].to_vec()
    };
    let [wait, event, foreign] =
        [Purpose::Wait, Purpose::Event, Purpose::Foreign].map(|purpose| purpose.sessions(scale));
    for _ in 0..scale.loads {
        for (daemon, numbers) in daemons.iter().zip(&mut *numbers) {
            let time = in_time(drive::unnamed_request(daemon)).await?;
            numbers.unnamed.add(time);
        }
    }
    for turn in 0..TURNS {
        for ((home, daemon), numbers) in homes.iter().zip(daemons).zip(&mut *numbers) {
            let sessions = turn_of(&wait, turn);
            in_time(drive::requests_waited(daemon, &sessions, numbers)).await?;
            let sessions = turn_of(&event, turn);
            in_time(drive::requests_told(daemon, &sessions, &mut numbers.event)).await?;
            let sessions = turn_of(&foreign, turn);
            in_time(drive::foreign_rows(home, daemon, &sessions, numbers)).await?;
        }
        let sessions = turn_of(&wait, turn);
        in_time(drive::requests_waited(unflushed, &sessions, &mut beside)).await?;
    }
    numbers[0].unflushed = beside.wait;
    Ok(())
}

async fn bursts(daemons: &[Daemon], scale: &Scale, numbers: &mut [Numbers]) -> Outcome<()> {
    let (told, waits) = (
        Purpose::BurstTold.sessions(scale),
        Purpose::BurstWaits.sessions(scale),
    );
    for (told, waits) in told.chunks(scale.burst).zip(waits.chunks(scale.burst)) {
        for (daemon, numbers) in daemons.iter().zip(&mut *numbers) {
            let time = in_time(drive::burst_told(daemon, told)).await?;
            numbers.burst_told.add(time);
            if numbers.first_burst.is_none() {
                numbers.first_burst = Some(daemon.memory()?);
            }
            let time = in_time(drive::burst_waited(daemon, waits)).await?;
            numbers.burst_waits.add(time);
        }
    }
    Ok(())
}
