//! The hardware: physics only. It decides nothing.
