//! What is done to one daemon and timed: requests over its socket, rows in its database, all at once or one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermesd::client::{Client, ClientError, News};
use hermesd::protocol::{
    Call, EventKind, EventsSubscribe, HandoffId, HandoffList, HandoffRequest, HandoffView, RpcError,
};
use tokio::task::JoinSet;

use crate::daemon::Daemon;
use crate::home::{Home, LONG};
use crate::measure::Numbers;
use crate::report::Samples;
use crate::{Outcome, Scale};

/// Between two foreign rows, so that each finds a daemon at rest, as a person's would.
const REST: Duration = Duration::from_millis(70);

pub(crate) async fn transcripts(home: &Home, scale: &Scale, times: &mut Samples) -> Outcome<()> {
    let store = home.store()?;
    for _ in 0..scale.loads {
        let began = Instant::now();
        let transcript = store.transcript(LONG).await?;
        times.add(began.elapsed());
        if transcript.messages.len() != scale.messages || transcript.orphans != 0 {
            return Err("the long transcript is not what was written".into());
        }
    }
    Ok(())
}

async fn request(client: &Client, session: &str) -> Outcome<HandoffView> {
    let wish = HandoffRequest {
        platform: "local".into(),
        session: Some(session.to_owned()),
        ..HandoffRequest::default()
    };
    Ok(client.call(Call::HandoffRequest(wish)).await?)
}

async fn request_and_wait(client: &Client, session: &str) -> Outcome<HandoffView> {
    let id = request(client, session).await?.id;
    let ended: HandoffView = client.call(Call::HandoffWait(HandoffId { id })).await?;
    check(&ended.session, &ended.state, ended.error.as_deref())?;
    Ok(ended)
}

fn check(session: &str, state: &str, error: Option<&str>) -> Outcome<()> {
    match state {
        "completed" => Ok(()),
        _ => Err(format!("the handoff of {session} is {state}: {error:?}").into()),
    }
}

async fn subscribe(client: &Client, topic: &str) -> Outcome<()> {
    let wish = EventsSubscribe {
        topics: vec![topic.into()],
        session: None,
    };
    let _: serde_json::Value = client.call(Call::EventsSubscribe(wish)).await?;
    Ok(())
}

async fn next_event(client: &Client) -> Outcome<EventKind> {
    match client.news().await.ok_or("the connection was lost")? {
        News::Event(event) => Ok(event.event),
        News::Missed(missed) => Err(format!("{missed} events were missed").into()),
    }
}

/// Waits until the end of this session's handoff is published, and returns its id.
async fn end_of(client: &Client, wanted: &str) -> Outcome<i64> {
    loop {
        if let EventKind::HandoffEnded {
            id,
            session,
            state,
            error,
            ..
        } = next_event(client).await?
            && session == wanted
        {
            return check(&session, &state, error.as_deref()).map(|()| id);
        }
    }
}

/// What `hermesctl handoff` without `--session` asks first: which terminal session is live? Here there are many, so the
/// answer is a refusal, found by the same query.
pub(crate) async fn unnamed_request(daemon: &Daemon) -> Outcome<Duration> {
    let client = daemon.connect().await?;
    let wish = HandoffRequest {
        platform: "local".into(),
        ..HandoffRequest::default()
    };
    let began = Instant::now();
    let answer = client.call::<HandoffView>(Call::HandoffRequest(wish)).await;
    let time = began.elapsed();
    match answer {
        Err(ClientError::Refused(RpcError {
            data: Some(data), ..
        })) if data.kind == "ambiguous_session" => Ok(time),
        other => Err(format!("a request that names no session got {other:?}").into()),
    }
}

/// One after the other: request, and as soon as its id is known, wait; the wait cannot be sent ahead, it names the id.
pub(crate) async fn requests_waited(
    daemon: &Daemon,
    sessions: &[String],
    numbers: &mut Numbers,
) -> Outcome<()> {
    let client = daemon.connect().await?;
    for session in sessions {
        let began = Instant::now();
        let handoff = request_and_wait(&client, session).await?;
        numbers.wait.add(began.elapsed());
        add_stages(&handoff, &mut numbers.stages);
    }
    Ok(())
}

/// How long each stage took, by the journal's own clock.
fn add_stages(handoff: &HandoffView, stages: &mut Vec<(String, Samples)>) {
    let mut before = handoff.requested_at;
    for (at, reached) in handoff.stages.iter().enumerate() {
        if stages.len() == at {
            stages.push((reached.stage.clone(), Samples::default()));
        }
        let seconds = (reached.at - before).max(0.0);
        stages[at].1.add(Duration::from_secs_f64(seconds));
        before = reached.at;
    }
}

/// The same, seen by a connection that subscribed: no second request is needed.
pub(crate) async fn requests_told(
    daemon: &Daemon,
    sessions: &[String],
    times: &mut Samples,
) -> Outcome<()> {
    let client = daemon.connect().await?;
    subscribe(&client, "handoff.ended").await?;
    for session in sessions {
        let began = Instant::now();
        tokio::try_join!(request(&client, session), end_of(&client, session))?;
        times.add(began.elapsed());
    }
    Ok(())
}

/// Another program asks by writing the row: the times from its commit to the claim and to the end.
pub(crate) async fn foreign_rows(
    home: &Home,
    daemon: &Daemon,
    sessions: &[String],
    numbers: &mut Numbers,
) -> Outcome<()> {
    let client = daemon.connect().await?;
    subscribe(&client, "handoff.ended").await?;
    let connection = home.sqlite()?;
    for wanted in sessions {
        tokio::time::sleep(REST).await;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection
            .prepare_cached("UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1")?
            .execute([wanted])?;
        connection.execute_batch("COMMIT")?;
        // The other program's own write to the disk is not ours to count.
        let (committed, clock) = (Instant::now(), hermesd::clock::now());
        let id = end_of(&client, wanted).await?;
        numbers.foreign.add(committed.elapsed());
        let ended: HandoffView = client.call(Call::HandoffShow(HandoffId { id })).await?;
        let claimed = ended.stages.first().ok_or("no stages")?.at;
        let noticed = Duration::from_secs_f64((claimed - clock).max(0.0));
        numbers.claimed.add(noticed);
    }
    Ok(())
}

/// All at once over one connection, until each of the waits is answered.
pub(crate) async fn burst_waited(daemon: &Daemon, sessions: &[String]) -> Outcome<Duration> {
    let client = Arc::new(daemon.connect().await?);
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for session in sessions {
        let (client, session) = (client.clone(), session.clone());
        tasks.spawn(async move { request_and_wait(&client, &session).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}

/// All at once over one connection that subscribed, until the end of the last is published.
pub(crate) async fn burst_told(daemon: &Daemon, sessions: &[String]) -> Outcome<Duration> {
    let client = Arc::new(daemon.connect().await?);
    subscribe(&client, "handoff.ended").await?;
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for session in sessions {
        let (client, session) = (client.clone(), session.clone());
        tasks.spawn(async move { request(&client, &session).await });
    }
    let requested = async {
        while let Some(answer) = tasks.join_next().await {
            answer??;
        }
        Ok(())
    };
    let (told, ()) = tokio::try_join!(all_ended(&client, sessions.len()), requested)?;
    if !told {
        nothing_in_flight(&client).await?;
    }
    Ok(began.elapsed())
}

/// False when some ends were missed: this client was too slow, and has to look for itself.
async fn all_ended(client: &Client, count: usize) -> Outcome<bool> {
    let mut ended = 0;
    while ended < count {
        match client.news().await.ok_or("the connection was lost")? {
            News::Missed(_) => return Ok(false),
            News::Event(event) => {
                if let EventKind::HandoffEnded {
                    session,
                    state,
                    error,
                    ..
                } = event.event
                {
                    check(&session, &state, error.as_deref())?;
                    ended += 1;
                }
            }
        }
    }
    Ok(true)
}

/// The truth is in the store, whatever was missed.
async fn nothing_in_flight(client: &Client) -> Outcome<()> {
    let wish = HandoffList {
        in_flight: true,
        limit: Some(1),
        ..HandoffList::default()
    };
    loop {
        let left: Vec<HandoffView> = client.call(Call::HandoffList(wish.clone())).await?;
        if left.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
