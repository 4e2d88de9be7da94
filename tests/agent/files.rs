//! What a person sends along, on its way to each kind of agent.

use std::sync::Arc;
use std::time::Duration;

use hermesd::agent::acp::Acp;
use hermesd::agent::command::CommandAgent;
use hermesd::agent::echo::Echo;
use hermesd::agent::openai::OpenAi;
use hermesd::agent::{Agent, Agents, Program, Prompt};
use hermesd::config::OpenAiConfig;
use hermesd::config::{QuestionTimeouts, Timeouts};
use hermesd::domain::Reply;
use hermesd::domain::transcript::Transcript;
use hermesd::domain::{Attachment, FileKind, Session, in_words};
use hermesd::events::Bus;
use hermesd::turn::{Streamed, TurnError, Turns};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::acp::{acp_agent, record};
use crate::support::endpoint::{Endpoint, KEY, MODEL, ScriptedReply};
use crate::support::log::Log;
use crate::support::{Home, PATIENCE};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgogYW5kIHNvIG9u";
pub const IDLE: Duration = Duration::from_secs(600);

/// A file in the home, as if somebody had sent it.
pub fn sent(
    home: &Home,
    kind: FileKind,
    name: &str,
    mime: Option<&str>,
    bytes: &[u8],
) -> Attachment {
    let path = home.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    Attachment {
        kind,
        path,
        name: name.into(),
        mime: mime.map(str::to_owned),
    }
}

fn photo(home: &Home) -> Attachment {
    sent(home, FileKind::Image, "photo.png", None, PNG)
}

/// One turn of an agent, with the clocks and all.
pub async fn ask(
    home: &Home,
    agent: &dyn Agent,
    transcript: &Transcript,
    attachments: &[Attachment],
    cancel: &CancellationToken,
) -> Result<Reply, TurnError> {
    ask_in(home, agent, "s", transcript, attachments, cancel).await
}

/// The same in a session by this name.
pub async fn ask_in(
    home: &Home,
    agent: &dyn Agent,
    session: &str,
    transcript: &Transcript,
    attachments: &[Attachment],
    cancel: &CancellationToken,
) -> Result<Reply, TurnError> {
    let clocks = Timeouts {
        whole: PATIENCE,
        first: None,
        silence: None,
        question: QuestionTimeouts {
            answer: Some(PATIENCE),
            reminder: None,
        },
        lease: PATIENCE,
    };
    let agents = Agents::only(Arc::new(Echo::default()));
    let turns = Turns::new(
        home.store(),
        agents,
        clocks,
        Bus::default(),
        std::sync::Arc::default(),
    );
    let (lock, streamed) = (turns.locks.acquire(session).await, Streamed::default());
    let prompt = Prompt {
        session: &Session::unsaved(session, 0.0),
        transcript,
        message: &in_words("Look!", attachments),
        attachments,
        handoff: false,
    };
    let answer = turns.run(&lock, agent, prompt, &streamed, None, cancel);
    answer.await
}

async fn say(
    home: &Home,
    agent: &dyn Agent,
    attachments: &[Attachment],
) -> Result<Reply, TurnError> {
    let (before, cancel) = (Transcript::default(), CancellationToken::new());
    ask(home, agent, &before, attachments, &cancel).await
}

pub fn runs(program: &str, name: &'static str, environment: &[(&str, String)]) -> Program {
    let environment = environment.iter();
    Program {
        words: vec![program.to_owned()],
        name,
        environment: environment
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        withheld: Vec::new(),
        platforms: Vec::new(),
    }
}

fn openai(endpoint: &Endpoint) -> OpenAi {
    let config = OpenAiConfig {
        base_url: endpoint.url(),
        api_key: Some(KEY.into()),
        model: MODEL.into(),
        context: 100_000,
    };
    OpenAi::new(config).unwrap()
}

/// What the endpoint was asked each time.
fn asked(endpoint: &Endpoint) -> Vec<Value> {
    let last = |messages: Vec<Value>| messages.last().unwrap()["content"].clone();
    endpoint
        .seen()
        .iter()
        .map(|seen| last(seen.messages()))
        .collect()
}

#[tokio::test]
async fn an_endpoint_is_shown_pictures_and_what_there_is_to_read() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let files = [
        photo(&home),
        sent(&home, FileKind::File, "a.rs", None, b"fn main() {}"),
        sent(&home, FileKind::Voice, "v.ogg", Some("audio/ogg"), b"OggS"),
    ];
    say(&home, &openai(&endpoint), &files).await.unwrap();
    assert_eq!(
        asked(&endpoint),
        [json!([
            {"type": "text", "text": in_words("Look!", &files)},
            {"type": "image_url", "image_url": {"url": PNG_URL}},
            {"type": "text", "text": "The file a.rs:\n\nfn main() {}"},
        ])]
    );
    // Nothing that a model could take: then it is a message as ever.
    say(&home, &openai(&endpoint), &files[2..]).await.unwrap();
    assert_eq!(asked(&endpoint)[1], in_words("Look!", &files[2..]));
}

#[tokio::test]
async fn an_endpoint_without_eyes_is_asked_again_in_words() {
    for (status, message) in [
        (
            400,
            "Invalid content type. image_url is only supported by certain models.",
        ),
        (422, "messages.0.content: Input should be a valid string"),
        (404, "No endpoints found that support image input"),
        (413, "Request Entity Too Large"),
        (
            500,
            "image input is not supported - hint: you may need to provide the mmproj",
        ),
    ] {
        let (home, endpoint) = (Home::new(), Endpoint::start());
        let files = [
            photo(&home),
            sent(
                &home,
                FileKind::File,
                "a.txt",
                Some("text/plain"),
                b"read me",
            ),
        ];
        endpoint.then(ScriptedReply::Refuse {
            status,
            retry_after: None,
            message,
        });
        let reply = say(&home, &openai(&endpoint), &files).await.unwrap();
        assert_eq!(reply.text, "I was given 1 messages.", "{message}");
        let asked = asked(&endpoint);
        assert_eq!(asked.len(), 2, "{message}");
        assert_eq!(asked[0][1]["image_url"]["url"], PNG_URL);
        let words = in_words("Look!", &files);
        assert_eq!(asked[1], format!("{words}\n\nThe file a.txt:\n\nread me"));
    }
}

#[tokio::test]
async fn pictures_stay_when_something_else_is_refused_and_go_once() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let blind = || ScriptedReply::Refuse {
        status: 400,
        retry_after: None,
        message: "this model has no vision",
    };
    endpoint.then(ScriptedReply::Picky).then(blind());
    say(&home, &openai(&endpoint), &[photo(&home)])
        .await
        .unwrap();
    let seen = endpoint.seen();
    let is_plain = |at: usize| {
        (
            seen[at].body.get("stream_options").is_none(),
            asked(&endpoint)[at].is_string(),
        )
    };
    assert_eq!(seen.len(), 3);
    assert_eq!(
        [is_plain(0), is_plain(1), is_plain(2)],
        [(false, false), (true, false), (true, true)]
    );

    // Whoever still speaks of pictures when there are none is not asked for ever.
    let endpoint = Endpoint::start();
    endpoint.then(blind()).then(blind()).then(blind());
    let error = say(&home, &openai(&endpoint), &[photo(&home)])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("this model has no vision"),
        "{error}"
    );
    assert_eq!(endpoint.seen().len(), 3);
    let endpoint = Endpoint::start();
    endpoint
        .then(ScriptedReply::refuse(400))
        .then(ScriptedReply::refuse(400));
    say(&home, &openai(&endpoint), &[photo(&home)])
        .await
        .unwrap_err();
    assert!(
        asked(&endpoint).iter().all(Value::is_array),
        "that was not about pictures"
    );
}

#[tokio::test]
async fn a_file_that_is_gone_is_words_and_a_warning() {
    let (home, endpoint, log) = (Home::new(), Endpoint::start(), Log::start());
    let files = [photo(&home)];
    std::fs::remove_file(&files[0].path).unwrap();
    say(&home, &openai(&endpoint), &files).await.unwrap();
    assert_eq!(asked(&endpoint), [in_words("Look!", &files)]);
    log.says("cannot be read", 1).await;
    assert!(log.text().contains("photo.png"), "{}", log.text());

    say(&home, &acp(&home, "image"), &files).await.unwrap();
    assert_eq!(
        blocks(&home),
        [json!({"type": "text", "text": in_words("Look!", &files)})]
    );
    log.says("cannot be read", 2).await;
}

fn acp(home: &Home, takes: &str) -> Acp {
    let record = home.path().join("record").display().to_string();
    let environment = [
        ("ACP_AGENT_RECORD", record),
        ("ACP_AGENT_TAKES", takes.to_owned()),
    ];
    Acp::new(runs(&acp_agent(), "acp", &environment), IDLE, home.store())
}

/// What the agent was last given.
fn blocks(home: &Home) -> Vec<Value> {
    let prompts = record(home).into_iter().map(|mut line| line["got"].take());
    let mut prompts = prompts.filter(|got| got["method"] == "session/prompt");
    let last = prompts.next_back().expect("a prompt");
    last["params"]["prompt"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_acp_agent_gets_what_it_says_it_takes() {
    for (takes, kinds) in [
        (
            "",
            ["text", "resource_link", "resource_link", "resource_link"],
        ),
        ("image", ["text", "image", "resource_link", "resource_link"]),
        ("image,audio", ["text", "image", "audio", "resource_link"]),
    ] {
        let home = Home::new();
        let files = [
            photo(&home),
            sent(&home, FileKind::Voice, "v.ogg", Some("audio/ogg"), b"OggS"),
            sent(&home, FileKind::File, "my report.pdf", None, b"%PDF"),
        ];
        let agent = acp(&home, takes);
        let reply = say(&home, &agent, &files).await.unwrap();
        assert_eq!(reply.text, "Blocks: 4. Prompts: 1.", "{takes}");
        let blocks = blocks(&home);
        let found: Vec<&str> = blocks.iter().map(|b| b["type"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{takes}");
        assert_eq!(blocks[0]["text"], in_words("Look!", &files));
        let uri = format!("file://{}/my%20report.pdf", home.path().display());
        assert_eq!(
            (&blocks[3]["name"], &blocks[3]["uri"]),
            (&json!("my report.pdf"), &json!(uri))
        );
        agent.close().await;
    }
}

#[tokio::test]
async fn a_program_is_told_of_every_file() {
    let home = Home::new();
    let agent = CommandAgent {
        program: runs("cat", "command", &[]),
    };
    let files = [
        photo(&home),
        sent(
            &home,
            FileKind::Voice,
            "a\nb.ogg",
            Some("audio/ogg"),
            b"OggS",
        ),
    ];
    let told = |reply: Reply| serde_json::from_str::<Value>(&reply.text).unwrap();
    let some = told(say(&home, &agent, &files).await.unwrap());
    assert_eq!(
        some["attachments"],
        json!([
            {"kind": "image", "path": files[0].path, "name": "photo.png", "mime": null},
            {"kind": "voice", "path": files[1].path, "name": "a b.ogg", "mime": "audio/ogg"},
        ])
    );
    assert_eq!(some["message"], in_words("Look!", &files));
    let none = told(say(&home, &agent, &[]).await.unwrap());
    assert_eq!(
        (&none["attachments"], &none["message"]),
        (&json!([]), &json!("Look!"))
    );
}

#[tokio::test]
async fn the_echo_says_what_it_was_sent() {
    let home = Home::new();
    let files = [
        photo(&home),
        sent(&home, FileKind::Voice, "v.ogg", None, b"OggS"),
    ];
    let reply = say(&home, &Echo::default(), &files).await.unwrap().text;
    let lines: Vec<&str> = reply.lines().collect();
    assert!(
        lines.contains(&"(You sent image photo.png, voice message v.ogg.)"),
        "{reply}"
    );
    let reply = say(&home, &Echo::default(), &[]).await.unwrap().text;
    assert!(!reply.contains("You sent"), "{reply}");
}
