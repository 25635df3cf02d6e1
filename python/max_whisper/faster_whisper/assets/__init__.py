"""max_whisper/faster_whisper/assets - empty: the weights of the speech detector are max-whisper's ("silero-vad")."""
