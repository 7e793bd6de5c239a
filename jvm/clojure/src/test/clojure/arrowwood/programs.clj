(ns arrowwood.programs
  "Other programs, and folders for a test."
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
