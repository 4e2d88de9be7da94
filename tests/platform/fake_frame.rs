//! The frame of the fake servers, seen through the smallest of fakes: a board with notes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_stream::StreamExt;

use crate::support::PATIENCE;
use crate::support::fake::{
    Answer, Done, FakeServer, FakeState, Outcome, Place, RecordedCall, Refusal, RequestBody,
    ScriptedFault, Vendor,
};

/// `POST /notes` adds a note. `GET /notes` waits until there is one.
#[derive(Default)]
struct Board {
    notes: Vec<String>,
}

type BoardServer = FakeServer<Board>;

const POST: &str = "POST /notes";
const POLL: &str = "GET /notes";

impl Vendor for Board {
    const POLLS: &'static [&'static str] = &[POLL];

    fn refusal(status: u16, description: &str, retry_after: Option<Duration>) -> Refusal {
        let retry_after = retry_after.map(|time| time.as_millis() as u64);
        let body = json!({"error": description, "retry_after_ms": retry_after});
        Refusal {
            description: description.to_owned(),
            answer: Answer::json(status, &body),
        }
    }

    fn place(_: &RecordedCall) -> Place {
        Place::default()
    }
}

impl BoardServer {
    fn start() -> BoardServer {
        FakeServer::with_routes(Board::default(), |state| {
            Router::new().fallback(route).with_state(state)
        })
    }

    fn notes(&self) -> usize {
        self.world().notes.len()
    }
}

async fn route(State(state): State<Arc<FakeState<Board>>>, request: Request) -> Response {
    let method = format!("{} {}", request.method(), request.uri().path());
    let body = RequestBody::read(request, 1 << 20).await.expect("JSON");
    let params = Value::Object(body.fields);
    let allowed = match method.as_str() {
        POST | POLL => Ok(()),
        _ => Err(Board::refusal(404, "No such thing", None)),
    };
    let text = params["text"].as_str().unwrap_or_default().to_owned();
    let work = async {
        let result = match method.as_str() {
            POST => {
                state.world().notes.push(text);
                json!("pinned")
            }
            _ => {
                let some = |board: &mut Board| Some(board.notes.clone()).filter(|n| !n.is_empty());
                json!(state.wait_for(Instant::now() + PATIENCE, some).await)
            }
        };
        let answer = Answer::json(200, &result);
        Ok(Done { result, answer })
    };
    state.serve(&method, params, allowed, work).await
}

fn note(url: &str, text: &str) -> reqwest::RequestBuilder {
    let request = reqwest::Client::new().post(format!("{url}/notes"));
    request.json(&json!({"text": text}))
}

async fn pin(board: &BoardServer, text: &str) -> reqwest::Result<(u16, String)> {
    let response = note(&board.url(), text).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

async fn status(board: &BoardServer, text: &str) -> u16 {
    pin(board, text).await.expect("an answer").0
}

#[tokio::test]
async fn a_call_is_recorded_with_its_parameters_and_its_outcome() {
    let board = BoardServer::start();
    let answer = pin(&board, "milk").await.unwrap();
    assert_eq!(answer, (200, "\"pinned\"".to_owned()));
    reqwest::get(format!("{}/nothing", board.url()))
        .await
        .unwrap();
    let calls = board.calls();
    assert_eq!(
        (calls[0].method.as_str(), &calls[0].params),
        (POST, &json!({"text": "milk"}))
    );
    assert_eq!(calls[0].outcome, Outcome::Done(json!("pinned")));
    let refused = Outcome::Refused(404, "No such thing".to_owned());
    assert_eq!(calls[1].outcome, refused);
    assert!(calls[0].at <= calls[1].at);
    assert_eq!(board.calls_of(POST).len(), 1);
}

#[tokio::test]
async fn a_change_of_the_world_reaches_a_client_that_waits_for_it() {
    let board = Arc::new(BoardServer::start());
    let url = format!("{}/notes", board.url());
    let poll = tokio::spawn(async move { reqwest::get(url).await?.text().await });
    let waits = board.clone();
    let waits = tokio::task::spawn_blocking(move || waits.until_calls(POLL, 1));
    waits.await.unwrap();
    assert_eq!(board.calls()[0].outcome, Outcome::Arrived);
    board.change(|board| board.notes.push("bread".to_owned()));
    assert_eq!(poll.await.unwrap().unwrap(), "[\"bread\"]");
    let ends = board.clone();
    let ends = tokio::task::spawn_blocking(move || ends.until_quiet());
    ends.await.unwrap();
}

#[tokio::test]
async fn a_fault_meets_the_calls_that_match_and_no_other() {
    let board = BoardServer::start();
    let busy = ScriptedFault::Answer(Answer::new(503, "text/plain", "busy"));
    board.next_calls(2, |call| call.params["text"] == "bread", busy);
    assert_eq!(status(&board, "milk").await, 200);
    for _ in 0..2 {
        let answer = pin(&board, "bread").await.unwrap();
        assert_eq!(answer, (503, "busy".to_owned()));
    }
    assert_eq!(status(&board, "bread").await, 200);
    assert_eq!(board.notes(), 2);
    // A fault for a method comes before one for any call, and polls meet only their own.
    board
        .then_any(ScriptedFault::Refuse(409, "taken"))
        .then(POST, ScriptedFault::Refuse(402, "pay"));
    let poll = reqwest::get(format!("{}/notes", board.url())).await;
    assert_eq!(poll.unwrap().status(), 200);
    for expected in [402, 409, 200] {
        assert_eq!(status(&board, "eggs").await, expected);
    }
}

#[tokio::test]
async fn a_refusal_has_the_format_of_the_vendor() {
    let board = BoardServer::start();
    let retry_after = Duration::from_millis(1500);
    board.then(POST, ScriptedFault::TooManyRequests { retry_after });
    let (status, body) = pin(&board, "milk").await.unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["retry_after_ms"]), (429, &json!(1500)));
    board.then(POST, ScriptedFault::ProxyPage(502));
    let (status, page) = pin(&board, "milk").await.unwrap();
    assert!(status == 502 && page.contains("502 Bad Gateway"), "{page}");
    assert_eq!(board.notes(), 0);
}

#[tokio::test]
async fn a_connection_ends_before_the_work_after_it_or_within_the_answer() {
    let board = BoardServer::start();
    board.then(POST, ScriptedFault::DisconnectBefore);
    assert!(pin(&board, "milk").await.is_err());
    assert_eq!(board.notes(), 0);
    board.then(POST, ScriptedFault::DisconnectAfter);
    assert!(pin(&board, "milk").await.is_err());
    assert_eq!(board.notes(), 1);
    board.then(POST, ScriptedFault::DisconnectWithin(3));
    let mut response = note(&board.url(), "milk").send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "\"pi");
    assert!(response.chunk().await.is_err());
    assert_eq!(board.notes(), 2);
    let calls = board.calls().into_iter();
    let outcomes: Vec<Outcome> = calls.map(|call| call.outcome).collect();
    let done = Outcome::Done(json!("pinned"));
    assert_eq!(outcomes, [Outcome::Abandoned, done.clone(), done]);
}

#[tokio::test]
async fn a_call_that_hangs_is_abandoned_when_the_client_goes() {
    let board = Arc::new(BoardServer::start());
    board.then(POST, ScriptedFault::Hang);
    let hanging = tokio::spawn(note(&board.url(), "milk").send());
    let waits = board.clone();
    let waits = tokio::task::spawn_blocking(move || waits.until_calls(POST, 1));
    waits.await.unwrap();
    assert_eq!(board.calls()[0].outcome, Outcome::Arrived);
    hanging.abort();
    let ends = board.clone();
    let ends = tokio::task::spawn_blocking(move || ends.until_quiet());
    ends.await.unwrap();
    assert_eq!(board.calls()[0].outcome, Outcome::Abandoned);
    assert_eq!(board.notes(), 0);
}

/// Without a connection, so that the time can stand still.
async fn pin_directly(board: &BoardServer) -> Response {
    let request = Request::post("/notes").header("content-type", "application/json");
    let request = request.body(Body::from(r#"{"text": "milk"}"#)).unwrap();
    route(State(board.state().clone()), request).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_late_and_can_come_in_pieces() {
    let board = BoardServer::start();
    let minute = Duration::from_secs(60);
    board.then(POST, ScriptedFault::Delay(minute));
    let begun = Instant::now();
    let response = pin_directly(&board).await;
    assert_eq!((response.status().as_u16(), begun.elapsed()), (200, minute));

    let size = 3;
    let pause = minute;
    board.then(POST, ScriptedFault::InPieces { size, pause });
    let begun = Instant::now();
    let mut pieces = pin_directly(&board).await.into_body().into_data_stream();
    let mut arrived = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = String::from_utf8(piece.unwrap().to_vec()).unwrap();
        arrived.push((begun.elapsed().as_secs(), piece));
    }
    let expected = [(0, "\"pi"), (60, "nne"), (120, "d\"")];
    assert_eq!(arrived, expected.map(|(at, piece)| (at, piece.to_owned())));
}

#[tokio::test]
async fn a_server_that_was_dropped_is_gone() {
    let board = BoardServer::start();
    let url = board.url();
    assert!(note(&url, "milk").send().await.is_ok());
    drop(board);
    let refused = note(&url, "milk").send().await.unwrap_err();
    assert!(refused.is_connect(), "{refused}");
}
