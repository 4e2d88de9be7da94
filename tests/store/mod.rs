//! The database: opening, writing, faults, and the schemas of every Hermes.

mod checkpoint;
mod cjk_index;
mod close;
mod damaged_index;
mod ended_chats;
mod every_hermes;
mod faults;
mod hermes_columns;
mod hermes_columns_model;
mod hermes_notes;
mod huge_rows;
mod ids;
mod journal_mode;
mod model;
mod odd_rows;
pub mod open;
mod power_cut;
mod rotation;
mod routing_mirror;
mod unknown_schema;
