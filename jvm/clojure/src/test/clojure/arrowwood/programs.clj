(ns arrowwood.programs
  "Other programs, folders for a test, and waits."
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell])
  (:import
   (com.google.gson JsonElement JsonParser)
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(defn folder
  "A new folder, which is deleted when the JVM ends."
  ^File []
  (let [folder (.toFile (Files/createTempDirectory "arrowwood" (make-array FileAttribute 0)))]
    (.addShutdownHook (Runtime/getRuntime)
                      (Thread. (fn [] (run! #(.delete ^File %) (reverse (file-seq folder))))))
    folder))

(def patience-ms
  "The milliseconds after which a wait has failed, also on a machine that is busy with other things."
  (* 1000 (parse-long (or (System/getenv "ARROWWOOD_PATIENCE") "240"))))

(defn- late [what] (AssertionError. (str "not within " (quot (long patience-ms) 1000) " s: " what)))

(defn until
  "Waits until `(holds?)`; `what` says what that means, as in \"the file is there\". Only polls sleep, and only here."
  [what holds?]
  (let [end (+ (System/nanoTime) (* 1000000 (long patience-ms)))]
    (while (not (holds?))
      (when (< end (System/nanoTime)) (throw (late what)))
      (Thread/sleep 2))))

(defn value
  "What a future has when it is done."
  [what future]
  (let [value (deref future patience-ms ::late)]
    (if (= ::late value) (throw (late what)) value)))

(defn run
  "What a program says that has to end well."
  [& words]
  (let [{:keys [exit out err]} (apply shell/sh (map str words))]
    (when-not (zero? exit) (throw (AssertionError. (str words ": " exit " " out err))))
    out))

(defn samples [] (io/file (System/getProperty "arrowwood.programs") "examples" "samples"))

(defn golden
  "Arrow's own files, where a copy of them is."
  []
  (let [folder (io/file (System/getProperty "arrowwood.golden"))]
    (when (.isDirectory (io/file folder "golden")) (io/file folder "golden"))))

(defn python
  "A Python that has Arrowwood, or nil."
  []
  (let [named (System/getProperty "arrowwood.python" "")]
    (when (and (seq named) (.canExecute (io/file named)) (zero? (:exit (shell/sh named "-c" "import arrowwood"))))
      named)))

(defn- data [^JsonElement json]
  (cond
    (.isJsonNull json) nil
    (.isJsonArray json) (mapv data (.getAsJsonArray json))
    (.isJsonObject json) (into {} (map (fn [entry] [(key entry) (data (val entry))])) (.entrySet (.getAsJsonObject json)))
    (.isBoolean (.getAsJsonPrimitive json)) (.getAsBoolean json)
    (.isNumber (.getAsJsonPrimitive json)) (.getAsDouble json)
    :else (.getAsString json)))

(defn json [text] (data (JsonParser/parseString text)))
