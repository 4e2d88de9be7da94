//! Slack's part of the contract that all platforms keep: once in a channel, once in the private chat with a person.

use crate::platform::contract::{Contract, Speaker};
use crate::support::Home;
use crate::support::fake::{FakeServer, Place};
use crate::support::slack::{ADA, BEN, World};
use crate::support::slack_bot::SlackBot;

/// The home is a public channel, or the private chat with Ada.
struct HomeOf<const PRIVATE: bool> {
    bot: SlackBot,
}

fn channel_of(place: &Place) -> &str {
    place.chat.as_deref().expect("a channel")
}

impl<const PRIVATE: bool> Contract for HomeOf<PRIVATE> {
    const PLATFORM: &'static str = "slack";
    const SEND: &'static str = "chat.postMessage";
    const RECOGNISES_REPEATS: bool = true;
    type World = World;

    fn start() -> HomeOf<PRIVATE> {
        HomeOf {
            bot: match PRIVATE {
                true => SlackBot::at_home(|api| api.direct(&ADA)),
                false => SlackBot::in_channel(),
            },
        }
    }

    fn home(&self) -> &Home {
        &self.bot.home
    }

    fn server(&self) -> &FakeServer<World> {
        &self.bot.api
    }

    fn until_listening(&self) {
        self.bot.api.until_listening();
    }

    fn threads(&self) -> Vec<Place> {
        let place = |root| Place {
            chat: Some(self.bot.channel.clone()),
            thread: Some(root),
        };
        self.bot.roots().into_iter().map(place).collect()
    }

    fn around(&self, thread: &Place) -> Place {
        Place {
            chat: thread.chat.clone(),
            thread: None,
        }
    }

    fn says(&self, place: &Place, who: Speaker, text: &str) {
        let person = match who {
            Speaker::Allowed => &ADA,
            Speaker::Stranger => &BEN,
        };
        if PRIVATE && who == Speaker::Stranger {
            // Nobody else can write in that chat.
            self.bot
                .api
                .says(&self.bot.api.direct(person), person, text);
            return;
        }
        let writing = self.bot.api.writes(channel_of(place), person).text(text);
        match &place.thread {
            Some(root) => writing.thread(root).send(),
            None => writing.send(),
        };
    }

    fn repeats_last_event(&self) {
        // Without a daemon, nobody acknowledges anything.
        if self.bot.api.connections() > 0 {
            self.bot.api.until_acknowledged();
        }
        self.bot.api.repeat_last();
    }

    /// The replies first: without them, nothing is left of the root.
    fn deletes(&self, thread: &Place) {
        let (channel, root) = (channel_of(thread), thread.thread.as_ref().expect("a root"));
        self.bot.api.deletes_thread(channel, root);
    }

    /// Without replies that Slack has posted in the channel because their thread is gone. The bot takes them back, as
    /// `handoff.rs` shows.
    fn messages(&self, place: &Place) -> Vec<String> {
        let stray = self.bot.api.stray_replies();
        let all = self.bot.api.bot_messages(channel_of(place)).into_iter();
        let there =
            all.filter(|message| message.thread_ts == place.thread && !stray.contains(&message.ts));
        there.map(|message| message.read()).collect()
    }

    fn notified(&self) -> Vec<String> {
        let all = self.bot.api.bot_messages(&self.bot.channel).into_iter();
        all.flat_map(|message| message.notified).collect()
    }
}

mod channel {
    use crate::platform::contract::contract;

    contract!(super::HomeOf<false>);
}

mod private_chat {
    use crate::platform::contract::contract;

    contract!(super::HomeOf<true>);
}
