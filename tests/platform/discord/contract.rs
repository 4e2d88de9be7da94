//! Discord's part of the contract that all platforms keep: a text channel in which the bot may open threads.

use crate::platform::contract::{Contract, Speaker, contract};
use crate::support::Home;
use crate::support::discord::{ADA, BEN, Id, SEND, World};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::{FakeServer, Place};

struct TextChannel {
    bot: DiscordBot,
}

fn channel(place: &Place) -> Id {
    let id = place.thread.as_ref().or(place.chat.as_ref());
    id.expect("a place").parse().expect("a number")
}

impl Contract for TextChannel {
    const PLATFORM: &'static str = "discord";
    const SEND: &'static str = SEND;
    const RECOGNISES_REPEATS: bool = true;
    type World = World;

    fn start() -> TextChannel {
        TextChannel {
            bot: DiscordBot::at_home(|api, guild| api.text_channel(guild, "work")),
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
        let threads = self.bot.api.threads(self.bot.channel).into_iter();
        let place = |id: Id| Place {
            chat: Some(self.bot.channel.to_string()),
            thread: Some(id.to_string()),
        };
        threads.map(|thread| place(thread.id)).collect()
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
        self.bot.api.says(channel(place), person, text);
    }

    fn repeats_last_event(&self) {
        self.bot.api.repeat_last();
    }

    fn deletes(&self, thread: &Place) {
        self.bot.api.deletes_channel(channel(thread));
    }

    fn messages(&self, place: &Place) -> Vec<String> {
        let messages = self.bot.api.messages_in(channel(place)).into_iter();
        messages.map(|message| message.content).collect()
    }

    fn notified(&self) -> Vec<String> {
        self.bot.api.notified()
    }
}

contract!(TextChannel);
