//! The built daemon with a bot at the fake Bot API.

use serde_json::Value;

pub use super::fake::Side;
use super::telegram::{ADA, BotApi, BotMessage, Person, TOKEN};
use super::{Daemon, Home, Ran, SESSION, until};

/// What stands before a message that may be in the chat already.
pub const MARK: &str = "(this may be a repeat)";

/// A home whose Telegram bot lives at `api`, as a Hermes user would have written it.
pub struct Bot {
    pub home: Home,
    pub api: BotApi,
    /// The home channel.
    pub chat: i64,
}

impl Bot {
    /// Ada is allowed, and `chat` is the home channel.
    pub fn at_home(chat: impl FnOnce(&BotApi) -> i64) -> Bot {
        let (home, api) = (Home::new(), BotApi::start());
        let chat = chat(&api);
        let bot = Bot { home, api, chat };
        bot.configure(&format!("TELEGRAM_HOME_CHANNEL={chat}\n"));
        bot
    }

    /// Writes Hermes' two files: the token, who is allowed and `more` in `.env`, the address in `config.yaml`.
    pub fn configure(&self, more: &str) {
        let env = format!(
            "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS={}\n{more}",
            ADA.id
        );
        self.home.write(".env", &env);
        let url = self.api.hermes_base_url();
        let yaml = format!("platforms:\n  telegram:\n    extra:\n      base_url: {url}\n");
        self.home.write("config.yaml", &yaml);
    }

    /// Starts the daemon and waits until it listens.
    pub fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    pub fn start_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let daemon = self.home.start_with(environment);
        self.api.until_polled();
        daemon
    }

    pub fn hand_off(&self) -> Ran {
        self.home
            .hermesctl(&["handoff", "telegram", "--session", SESSION])
    }

    /// Asks for a handoff and does not wait for what becomes of it.
    pub fn ask(&self) {
        let asked =
            self.home
                .hermesctl(&["handoff", "telegram", "--session", SESSION, "--no-wait"]);
        assert_eq!(asked.code, 0, "{asked:?}");
    }

    /// A handoff as hermesctl shows it, the first being 1.
    pub fn handoff(&self, id: u32) -> Value {
        let show = ["--json", "handoffs", "show", &id.to_string()];
        self.home.hermesctl(&show).json()
    }

    /// The first handoff, when it has ended.
    pub fn settled(&self) -> Value {
        until("the handoff ends", || {
            let state: String = self.look("SELECT state FROM hermesd_handoffs WHERE id = 1");
            matches!(state.as_str(), "completed" | "failed").then_some(())
        });
        self.handoff(1)
    }

    /// One value of the database.
    pub fn look<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let row = self.home.sqlite().query_row(sql, [], |row| row.get(0));
        row.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Somebody says something in the topic, or outside of topics, and the session that was handed off answers it with all
    /// that it knows.
    pub fn goes_on(&self, thread: Option<i64>, person: &Person) -> BotMessage {
        self.api.says(self.chat, thread, person, "and now?");
        let answer = self
            .api
            .until_message(self.chat, thread, |m| m.text.contains("and now?"));
        assert!(answer.text.contains("I remember 6 messages"), "{answer:?}");
        let said: i64 = self.look(&format!(
            "SELECT count(*) FROM messages WHERE active = 1 AND session_id = '{SESSION}'"
        ));
        assert_eq!(said, 8, "in the same session");
        answer
    }
}

/// The text as a person reads it, without the invisible characters that keep names from being mentions.
fn read(text: &str) -> String {
    text.replace('\u{2060}', "")
}

impl Person {
    /// People who have nothing but a private chat.
    pub fn many(count: i64) -> Vec<Person> {
        let person = |n| Person {
            id: 50_000_000 + n,
            name: "One of many",
            username: None,
        };
        (0..count).map(person).collect()
    }
}

impl Bot {
    /// Everybody says so many things in their own chat, all at once.
    pub fn all_talk(&self, people: &[Person], each: usize) {
        for person in people {
            self.api.private(person);
        }
        self.api.at_once(|api| {
            for n in 0..each {
                for person in people {
                    let said = format!("{} says {n}.", person.id);
                    api.says(person.id, None, person, &said);
                }
            }
        });
    }

    /// Waits until they have an answer to each of what they said in [`Bot::all_talk`], in that order, with no two the same but
    /// those that say so; and returns all.
    pub fn until_answered(&self, person: &Person, each: usize) -> Vec<BotMessage> {
        let answer = |n: usize| {
            let remembered = format!("(I remember {} messages", 2 * n);
            format!("You said: {} says {n}.\n{remembered}", person.id)
        };
        let answers = until("all answers", || {
            let answers = self.api.messages_in(person.id, None);
            let last = answer(each - 1);
            let complete = answers.iter().any(|m| m.text.contains(&last));
            complete.then_some(answers)
        });
        let mut next = 0;
        for message in &answers {
            if next < each && message.text.contains(&answer(next)) {
                next += 1;
            } else {
                assert!(message.text.starts_with(MARK), "{answers:?}");
                assert!(message.text.contains(&answer(next - 1)), "{answers:?}");
            }
        }
        answers
    }

    /// Waits until so many messages were sent, and nothing else is to be.
    pub fn until_all_sent(&self, count: i64) {
        until("the ledger is closed", || {
            let sent: i64 =
                self.look("SELECT count(*) FROM hermesd_deliveries WHERE state = 'sent'");
            (sent == count).then_some(())
        });
        let all: i64 = self.look("SELECT count(*) FROM hermesd_deliveries");
        assert_eq!(all, count);
    }
}

impl Bot {
    /// Ada is allowed and has started the bot; there is no home. Gives the number of her chat.
    pub fn of_ada(more: &str) -> (Bot, i64) {
        let bot = Bot::for_nobody("");
        bot.configure(more);
        let chat = bot.api.private(&ADA);
        (bot, chat)
    }

    /// Nobody is allowed whom `env` does not name.
    pub fn for_nobody(env: &str) -> Bot {
        let (home, api) = (Home::new(), BotApi::start());
        let bot = Bot { home, api, chat: 0 };
        bot.configure("");
        bot.home
            .write(".env", &format!("TELEGRAM_BOT_TOKEN={TOKEN}\n{env}"));
        bot
    }

    /// Waits for the embedded agent's answer to these words.
    pub fn answered(&self, chat: i64, thread: Option<i64>, words: &str) -> BotMessage {
        let answer = format!("You said: {words}\n");
        self.api
            .until_message(chat, thread, |m| read(&m.text).starts_with(&answer))
    }

    /// Ada says something, which is answered.
    pub fn asks(&self, chat: i64, thread: Option<i64>, words: &str) -> BotMessage {
        self.api.says(chat, thread, &ADA, words);
        self.answered(chat, thread, words)
    }

    /// What the bot has written outside of topics, in order.
    pub fn texts(&self, chat: i64) -> Vec<String> {
        let messages = self.api.messages_in(chat, None).into_iter();
        messages.map(|m| m.text).collect()
    }

    /// How `hermesctl platforms` finds Telegram.
    pub fn standing(&self) -> Value {
        let all = self.home.hermesctl(&["--json", "platforms"]).json();
        let mut all = all.as_array().expect("a list").iter();
        all.find(|p| p["name"] == "telegram").expect("it").clone()
    }

    /// Waits for such a standing, and gives its detail.
    pub fn until_standing(&self, state: &str) -> String {
        until(state, || {
            let now = self.standing();
            let detail = now["detail"].as_str().unwrap_or_default().to_owned();
            (now["state"] == state).then_some(detail)
        })
    }
}
