//! The six handoff operations against a model: two real processes run random operations on one database at the same
//! time, and every pair of answers has to be explained by one order or the other.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::store::{Answer, Claim, OpenMode, Store, StoreError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::support::{Home, home_channel, no_thread};

const SESSIONS: [&str; 3] = ["s0", "s1", "s2"];
/// Longer than the column takes, with characters of more than one byte.
const LONG_REASON: &str = "ärger";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Op {
    Open(String),
    Request(usize, String),
    State(usize),
    ListPending,
    Claim(usize),
    Complete(usize),
    Fail(usize),
    Withdraw(usize),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Outcome {
    Yes,
    No,
    State(Option<String>, Option<String>, Option<String>),
    Pending(Vec<(String, String)>),
}

// The worker process.

/// Does nothing unless this binary was started as a worker; then it obeys commands from stdin.
#[test]
fn worker() {
    if std::env::var_os("HERMESD_STORE_WORKER").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut store: Option<Store> = None;
    let mut claims: HashMap<usize, Claim> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let op: Op = serde_json::from_str(&line.unwrap()).unwrap();
        let outcome = match (&op, &store) {
            (Op::Open(path), _) => {
                claims.clear();
                store = Some(
                    Store::open(Path::new(path), OpenMode::Existing, &Default::default()).unwrap(),
                );
                Outcome::Yes
            }
            (op, Some(store)) => runtime.block_on(perform(store, op, &mut claims)).unwrap(),
            (_, None) => panic!("open first"),
        };
        // The harness prints lines of its own; ours are marked.
        #[allow(clippy::print_stdout)]
        {
            println!("\n@{}", serde_json::to_string(&outcome).unwrap());
        }
    }
}

async fn perform(
    store: &Store,
    op: &Op,
    claims: &mut HashMap<usize, Claim>,
) -> Result<Outcome, StoreError> {
    let answer = |yes: bool| Ok(if yes { Outcome::Yes } else { Outcome::No });
    match op {
        Op::Open(_) => answer(false),
        Op::Request(s, platform) => match store
            .request_handoff(SESSIONS[*s], platform, None, RequestedVia::Direct, false)
            .await
        {
            Ok(_) => answer(true),
            Err(StoreError::Conflict(_)) => answer(false),
            Err(e) => Err(e),
        },
        Op::State(s) => {
            let row = store.handoff_state(SESSIONS[*s]).await?.expect("a session");
            Ok(Outcome::State(
                row.state.map(|s| s.as_str().to_owned()),
                row.platform,
                row.error,
            ))
        }
        Op::ListPending => {
            let rows = store.pending_handoffs(100, |_| true)?.into_iter();
            let rows = rows.map(|row| (row.session_id, row.platform));
            Ok(Outcome::Pending(rows.collect()))
        }
        Op::Claim(s) => {
            let claim = store
                .claim_handoff(SESSIONS[*s], "worker", f64::MAX, home_channel)
                .await?;
            let won = claim.is_some();
            claims.extend(claim.map(|claim| (*s, claim)));
            answer(won)
        }
        Op::Complete(s) => match claims.remove(s) {
            Some(claim) => walk(store, claim).await.map(|_| Outcome::Yes),
            None => answer(false),
        },
        Op::Fail(s) => match claims.remove(s) {
            Some(claim) => store
                .fail_handoff(&claim, &LONG_REASON.repeat(200), Vec::new())
                .await
                .map(|_| Outcome::Yes),
            None => answer(false),
        },
        Op::Withdraw(s) => answer(store.withdraw_handoff(SESSIONS[*s], "withdrawn").await?),
    }
}

/// Through all stages to the end.
async fn walk(store: &Store, mut claim: Claim) -> Result<(), StoreError> {
    store.record_thread(&claim, &no_thread()).await?;
    let key = format!("key-{}", claim.handoff.session_id);
    store
        .record_binding(&claim, &key, &local::source("home", None))
        .await?;
    store
        .record_answer(
            &claim,
            Answer {
                notice: "n".into(),
                reply: "r".to_owned().into(),
                deliveries: Vec::new(),
                transcript_writer: TranscriptWriter::Daemon,
            },
        )
        .await?;
    claim.sent = Some(Vec::new());
    store.complete_handoff(&claim).await.map(|_| ())
}

struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start() -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "store::model::worker",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env("HERMESD_STORE_WORKER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Worker {
            child,
            input,
            output,
        }
    }

    fn send(&mut self, op: &Op) {
        writeln!(self.input, "{}", serde_json::to_string(op).unwrap()).unwrap();
    }

    fn receive(&mut self) -> Outcome {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "the worker died"
            );
            if let Some(json) = line.strip_prefix('@') {
                return serde_json::from_str(json).unwrap();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// The model.

#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    state: Option<&'static str>,
    platform: Option<String>,
    error: Option<String>,
    /// Which worker holds the claim.
    holder: Option<usize>,
}

type Model = BTreeMap<usize, Row>;

fn apply(model: &Model, worker: usize, op: &Op) -> (Model, Outcome) {
    let mut next = model.clone();
    let answer = |yes: bool| if yes { Outcome::Yes } else { Outcome::No };
    let outcome = match op {
        Op::Open(_) => Outcome::Yes,
        Op::Request(s, platform) => {
            let row = next.entry(*s).or_default();
            let allowed = matches!(row.state, None | Some("completed" | "failed"));
            if allowed {
                *row = Row {
                    state: Some("pending"),
                    platform: Some(platform.clone()),
                    error: None,
                    holder: None,
                };
            }
            answer(allowed)
        }
        Op::State(s) => {
            let row = next.entry(*s).or_default();
            Outcome::State(
                row.state.map(str::to_owned),
                row.platform.clone(),
                row.error.clone(),
            )
        }
        Op::ListPending => {
            let pending = next.iter().filter(|(_, row)| row.state == Some("pending"));
            Outcome::Pending(
                pending
                    .map(|(s, row)| (SESSIONS[*s].to_owned(), row.platform.clone().unwrap()))
                    .collect(),
            )
        }
        Op::Claim(s) => {
            let row = next.entry(*s).or_default();
            let pending = row.state == Some("pending");
            if pending {
                (row.state, row.holder) = (Some("running"), Some(worker));
            }
            answer(pending)
        }
        Op::Complete(s) | Op::Fail(s) => {
            let row = next.entry(*s).or_default();
            let ours = row.state == Some("running") && row.holder == Some(worker);
            if ours {
                let failed = matches!(op, Op::Fail(_));
                row.state = Some(if failed { "failed" } else { "completed" });
                row.error = failed.then(|| LONG_REASON.repeat(200).chars().take(500).collect());
                row.holder = None;
            }
            answer(ours)
        }
        Op::Withdraw(s) => {
            let row = next.entry(*s).or_default();
            let pending = row.state == Some("pending");
            if pending {
                (row.state, row.error) = (Some("failed"), Some("withdrawn".into()));
            }
            answer(pending)
        }
    };
    (next, outcome)
}

fn ops() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        3 => (session.clone(), prop::sample::select(vec!["local", "telegram"])).prop_map(|(s, p)| Op::Request(s, p.into())),
        4 => session.clone().prop_map(Op::Claim),
        2 => session.clone().prop_map(Op::Complete),
        2 => session.clone().prop_map(Op::Fail),
        1 => session.clone().prop_map(Op::Withdraw),
        2 => session.prop_map(Op::State),
        1 => Just(Op::ListPending),
    ]
}

/// The rows as they stand, read by a third party.
fn observed(home: &Home) -> Vec<(Option<String>, Option<String>, Option<String>)> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare("SELECT handoff_state, handoff_platform, handoff_error FROM sessions ORDER BY id")
        .unwrap();
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn expected(model: &Model) -> Vec<(Option<String>, Option<String>, Option<String>)> {
    let row = |s: usize| model.get(&s).cloned().unwrap_or_default();
    (0..SESSIONS.len())
        .map(row)
        .map(|r| (r.state.map(str::to_owned), r.platform, r.error))
        .collect()
}

#[test]
fn two_processes_never_disagree_with_the_model() {
    let mut workers = [Worker::start(), Worker::start()];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 24,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    });
    let workers = std::cell::RefCell::new(&mut workers);
    runner
        .run(&prop::collection::vec((ops(), ops()), 1..40), |steps| {
            let home = Home::new();
            drop(home.store());
            for (n, id) in SESSIONS.iter().enumerate() {
                home.sqlite()
                    .execute("INSERT INTO sessions (id, source, started_at) VALUES (?1, 'cli', ?2)", rusqlite::params![id, n as f64])
                    .unwrap();
            }
            let mut workers = workers.borrow_mut();
            for worker in workers.iter_mut() {
                worker.send(&Op::Open(home.path().display().to_string()));
                worker.receive();
            }
            let mut model = Model::new();
            for (a, b) in &steps {
                workers[0].send(a);
                workers[1].send(b);
                let outcomes = (workers[0].receive(), workers[1].receive());
                let (after_a, first_a) = apply(&model, 0, a);
                let (a_then_b, then_b) = apply(&after_a, 1, b);
                let (after_b, first_b) = apply(&model, 1, b);
                let (b_then_a, then_a) = apply(&after_b, 0, a);
                let rows = observed(&home);
                model = if (first_a, then_b) == outcomes && expected(&a_then_b) == rows {
                    a_then_b
                } else if (then_a, first_b) == outcomes && expected(&b_then_a) == rows {
                    b_then_a
                } else {
                    return Err(TestCaseError::fail(format!("neither order of {a:?} and {b:?} explains {outcomes:?} and {rows:?} after {model:?}")));
                };
            }
            Ok(())
        })
        .unwrap();
}
